// Command bench takes samples of what lies below the API: the VMM driver, a
// memory image and the agent's protocol, with neither server nor shim nor
// jail. It reads one request a line from its input, answers each with one line
// of JSON, and ends with its input; rows.py and its neighbours ask for samples
// between those they take through the SDK, so that both meet the same host.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pandastack/internal/app"
)

// sampleLimit ends a sample that hangs.
const sampleLimit = 2 * time.Minute

func main() {
	// An interrupt at the terminal is for the script, which then ends the input.
	// When that has died, the next answer's error ends the machines in good order.
	signal.Ignore(os.Interrupt, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	mine, err := app.Helper(ctx, args) // the stage that becomes the VMM
	if !mine {
		err = serve(ctx, args, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	data := flags.String("data-dir", "", "data directory with the baked template")
	name := flags.String("template", "code-interpreter", "the template")
	accelerator := flags.String("accelerator", "", "kvm or tcg; the driver's choice otherwise")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := openBare(*data, *name, *accelerator)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	answers := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan() && ctx.Err() == nil; {
		if err := answers.Encode(answer(ctx, b, lines.Text())); err != nil {
			return err
		}
	}
	return nil
}

// sample is one answer: a duration with its parts, or why there is none.
type sample struct {
	MS    float64            `json:"ms"`
	MB    float64            `json:"mb,omitempty"`
	Steps map[string]float64 `json:"steps,omitempty"`
	Error string             `json:"error,omitempty"`
}

// answer takes the sample that a line asks for: a name, for some a number.
func answer(ctx context.Context, b *bare, line string) sample {
	ctx, cancel := context.WithTimeout(ctx, sampleLimit)
	defer cancel()
	word, number, _ := strings.Cut(line, " ")
	n, _ := strconv.Atoi(number)
	var s sample
	var err error
	switch word {
	case "restore":
		s, err = b.restore(ctx)
	case "restores":
		s, err = b.restores(ctx, n)
	case "differ":
		s, err = differ(number)
	case "exec":
		s, err = b.running(ctx, whole(execTrue))
	case "cell":
		s, err = b.running(ctx, cell)
	case "raw_up":
		s, err = b.running(ctx, rawUp(n))
	case "raw_down":
		s, err = b.running(ctx, rawDown(n))
	case "agent_up":
		s, err = b.running(ctx, agentUp(n))
	case "agent_down":
		s, err = b.running(ctx, whole(agentDown))
	case "release":
		err = b.release()
	default:
		err = fmt.Errorf("unknown sample %q", word)
	}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}
