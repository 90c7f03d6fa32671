package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"pandastack/client"
)

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// clean keeps a value from moving the cursor or breaking the table.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// firstLine is that by which a cell is known.
func firstLine(code string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(code), "\n")
	return clean(fmt.Sprintf("%.60s", line))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// age is how long ago t was, in its largest unit.
func age(t time.Time) string {
	d := time.Since(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func printFailure(env Env, f Failure) {
	w := env.Stderr
	line := env.palette(w).red("pandastack:") + " " + clean(f.Message)
	if f.Code != "" {
		line += " (" + f.Code + ")"
	}
	if f.Hint != "" {
		line += " — " + clean(f.Hint)
	}
	fmt.Fprintln(w, line)
	if f.More != "" {
		fmt.Fprintln(w, f.More)
	}
}

// explain tells a refusal of the server, a server that does not answer, and
// what the node says about its own errors apart.
func explain(err error, node Node) Failure {
	var refused *client.Error
	var transport *url.Error
	var usage usageError
	var local *localError
	var absent *noServerError
	switch {
	case errors.As(err, &usage):
		return Failure{Message: err.Error(), Hint: "see 'pandastack --help'"}
	case errors.As(err, &local):
		return Failure{Message: local.message, Hint: local.hint}
	case errors.As(err, &absent):
		return Failure{Message: absent.message, Hint: absent.hint}
	case errors.As(err, &refused):
		f := Failure{Message: refused.Message, Code: refused.Code, Hint: refused.Hint}
		for _, field := range refused.Fields {
			f.More += fmt.Sprintf("  %s: %s\n", field.Path, field.Message)
		}
		f.More = strings.TrimSuffix(f.More, "\n")
		return f
	case errors.As(err, &transport):
		return Failure{
			Message: fmt.Sprintf("the server does not answer: %v", transport.Err),
			Hint:    "'pandastack serve' starts one; --api or PANDASTACK_API names another",
		}
	case node.Explain != nil:
		return node.Explain(err)
	}
	return Failure{Message: err.Error()}
}

// localError is one that this package itself has found.
type localError struct{ message, hint string }

// noServerError says that this machine runs none.
type noServerError struct{ localError }

func (e *localError) Error() string { return e.message }
