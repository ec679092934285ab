// Command onboard starts a run that waits for a person's answer and then for a day, and works
// on it. It needs a node: go run ./cmd/pyrula-node dev. Answer with
//
//	go run ./cmd/pyrula-node runs signal RUN approved --payload '"yes"'
//
// and stop and start it as you like: the account is created once.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

type user struct {
	Mail string `json:"mail"`
}

type mail struct {
	To      string `json:"to"`
	Account string `json:"account"`
}

var welcome = pyrula.Define("welcome", func(r *pyrula.Run, m mail) (bool, error) {
	r.Log.Info("sending", "to", m.To, "account", m.Account)
	return true, nil
}, pyrula.Limit{Key: "to", Max: 1})

// It must stay as the README shows it.
var onboard = pyrula.Define("onboard", func(r *pyrula.Run, u user) (string, error) {
	account, err := pyrula.Step(r, "create account", func(ctx context.Context) (string, error) {
		return createAccount(ctx, u) // once its result is recorded it never runs again
	})
	if err != nil {
		return "", err
	}
	answer, err := pyrula.WaitSignal[string](r, "approved", 72*time.Hour) // c.Signal(ctx, runID, "approved", "yes")
	if errors.Is(err, pyrula.ErrSignalTimeout) {
		return "nobody answered", nil
	}
	if err != nil {
		return "", err
	}
	if err := r.Sleep(24 * time.Hour); err != nil {
		return "", err
	}
	if _, err := welcome.RunChild(r, mail{To: u.Mail, Account: account}); err != nil { // another run, awaited
		return "", err
	}
	return answer, nil
})

// createAccount stands for a call to another system.
func createAccount(_ context.Context, u user) (string, error) {
	log.Println("creating an account for", u.Mail)
	return "account of " + u.Mail, nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := pyrula.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	h, err := onboard.Start(ctx, c, user{Mail: "anna@example.com"}, pyrula.OnceKey("onboard anna@example.com"))
	if err != nil {
		return err
	}
	log.Println("the run is", h.ID)
	return c.Work(ctx, onboard, welcome)
}
