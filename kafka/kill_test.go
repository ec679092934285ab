package kafka_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pyrula/pyrula-node/kafka"
	"github.com/pyrula/pyrula-node/pyrula"
)

// childVar makes the test binary a consumer; its value is the address of the node
// and that of a broker.
const childVar = "PYRULA_KAFKA_CHILD"

const submittedLine = "submitted"

// child consumes until it is killed. Before its first commit it says so and waits for
// its death.
func child() int {
	nodeAddr, broker, _ := strings.Cut(os.Getenv(childVar), " ")
	ctx := context.Background()
	c, err := pyrula.Dial(ctx, pyrula.WithAddr(nodeAddr))
	if err != nil {
		fmt.Println("dial:", err)
		return 1
	}
	consumer, err := kafka.NewConsumer(c, newBodies().workflow("child", nil), kafka.Config{
		Brokers: []string{broker}, Group: group, MaxConcurrency: 4,
		// The group misses it soon: half a second is the test's, not an advice.
		Options: []kgo.Opt{kgo.SessionTimeout(500 * time.Millisecond), kgo.HeartbeatInterval(50 * time.Millisecond)},
	})
	if err != nil {
		fmt.Println("consumer:", err)
		return 1
	}
	consumer.SetMayCommit(func() error {
		fmt.Println(submittedLine)
		select {}
	})
	fmt.Println("run:", consumer.Run(ctx))
	return 1
}

// Fails when a consumer that is killed with SIGKILL between submit and commit makes a
// second run of a record, or loses one.
func TestQ6Kill9BetweenSubmitAndCommit(t *testing.T) {
	const records = 12
	w := newWorld(t, 3)
	w.spread(0, records, 3)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childVar+"="+w.node.Addr()+" "+w.brokers()[0])
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != submittedLine {
		t.Logf("the child says %q", lines.Text())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the child ended by itself: %v", err)
	}
	made := len(w.runs("charge"))
	if w.committed() != 0 || made == 0 {
		t.Fatalf("the child left %d committed offsets and %d runs", w.committed(), made)
	}
	b := newBodies()
	next := w.consume(b.workflow("next", nil), kafka.Config{MaxConcurrency: 4})
	w.until("all is committed", func() bool { return w.committed() == records })
	if got := next.Stats(); got.Repeated != int64(made) || got.Submitted != int64(records-made) {
		t.Errorf("%d records found their runs and %d made one, want %d and %d", got.Repeated, got.Submitted, made, records-made)
	}
	w.oneRunEach("charge", records)
}
