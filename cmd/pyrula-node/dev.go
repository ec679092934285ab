package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// dataVariable names the data directory of serve in the environment.
const dataVariable = envPrefix + "DATA"

func (p *program) devCommand() *cobra.Command {
	dev := &cobra.Command{
		Use:   "dev",
		Short: "Run a node for trying things out, on a temporary directory",
		Long: `Run a node on a temporary directory, which is removed at the end, or on --data DIR,
which isn't. It is the node that serve runs: durable, with the same API. PYRULA_DATA
is not read.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.dev(c.Context(), c.Flags()) },
	}
	// PYRULA_DATA is where the real node's data is: no place for trying things out.
	dev.Flags().String("data", "", "`directory` of journal and snapshots, kept at the end; default: a temporary one")
	declareSettings(dev.Flags(), "addr", "log-format")
	return dev
}

func (p *program) dev(ctx context.Context, flags *pflag.FlagSet) error {
	vs, err := resolve(flags, func(name string) string {
		if name == dataVariable {
			return ""
		}
		return p.getenv(name)
	})
	if err != nil {
		return err
	}
	p.logsJSON = vs["log-format"].text == logJSON
	cfg, err := vs.nodeConfig()
	if err != nil {
		return err
	}
	log := p.logger(cfg)
	cfg.warn(log)
	n, err := p.start(ctx, cfg, log)
	if err != nil {
		return err
	}
	p.welcome(n, cfg)
	return p.untilEnd(ctx, n, cfg.drainDelay, log)
}

// welcome prints where the node is and what to paste first.
func (p *program) welcome(n *node.Node, cfg nodeConfig) {
	data := n.DataDir()
	if cfg.data == "" {
		data += "  (removed at the end)"
	}
	url := n.URL()
	fmt.Fprintf(p.stdout, `pyrula-node %s for development; stop it with Ctrl-C

  API      %s/v1
  shapes   %s
  metrics  %s
  data     %s

Paste this to declare a workflow, submit a run and claim it:

curl -w '\n' -X PUT %s/v1/workflows/deliver -d '{"limit":{"key":"tenant","max":2}}'
curl -w '\n' %s/deliver -d '{"tenant":"acme"}'
curl -w '\n' %s/v1/claims -d '{"worker":"w1","workflows":[{"name":"deliver","version":""}],"credit":1}'

`, node.Version, url, url+wire.PathOpenAPI, url+wire.PathMetrics, data, url, url, url)
}
