package cli

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"pandastack/api"
)

func TestEveryCommandHasExamples(t *testing.T) {
	parser, err := kong.New(&root{})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		example := "    pandastack " + strings.Join(strings.Fields(leaf.Path()), " ")
		got := command(t.Context(), nil, Node{}, append(strings.Fields(leaf.Path()), "--help")...)
		if got.code != 0 || !strings.Contains(got.out, "Examples:\n") || !strings.Contains(got.out, example) {
			t.Errorf("%s: no example %q in its help:\n%s", leaf.Path(), example, got.out)
		}
		if leaf.Help == "" || !strings.HasSuffix(leaf.Help, ".") {
			t.Errorf("%s: help %q is no sentence", leaf.Path(), leaf.Help)
		}
	}
}

func TestColours(t *testing.T) {
	none := func(string) string { return "" }
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if bool((Env{Getenv: none}).palette(file)) || terminal(null) || terminal(&bytes.Buffer{}) {
		t.Error("coloured where there is no terminal")
	}
	// What is coloured is measured without the colour.
	var out bytes.Buffer
	rows := [][]string{{"A", "STATUS", "C"}, {"ä\x1b", "running", "x"}, {"longer", "failed", "y"}}
	err = printColumns(&out, rows, func(_, column int, text string) string {
		if column == 1 {
			return palette(true).status(text)
		}
		return text
	})
	want := "A       \x1b[33mSTATUS\x1b[0m   C\nä       \x1b[32mrunning\x1b[0m  x\nlonger  \x1b[31mfailed\x1b[0m   y\n"
	if err != nil || out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 1 << 30: "1.1 GB"} {
		if got := bytesOf(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	b := newBar(&bytes.Buffer{}, 4000)
	b.name("/workspace/a/very/long/path/to/a\x1bfile.txt")
	b.done = 1000
	line := b.line()
	if !strings.HasPrefix(line, "[=======                       ]  25%  1.0 kB of 4.0 kB  ") || !strings.HasSuffix(line, "…/path/to/a file.txt"[len("…"):]) {
		t.Errorf("%q", line)
	}
	b.done = 5000 // the file has grown
	if line := b.line(); !strings.Contains(line, "100%  5.0 kB of 5.0 kB") {
		t.Errorf("%q", line)
	}
}

func TestCompletion(t *testing.T) {
	a := newAnswers(t)
	a.routes = map[string]http.HandlerFunc{"GET /v1/snapshots": func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, api.SnapshotList{Items: []api.Snapshot{{ID: "snap1", Name: "loaded"}}})
	}}
	for line, want := range map[string]string{
		"ru":                               "run",
		"sandbox ":                         "create ls get rm pause resume hibernate wake snapshot fork",
		"sandbox get ":                     "box1",
		"sandbox rm box1 ":                 "box1",
		"exec b":                           "box1",
		"exec box1 -- ":                    "",
		"sandbox get --data-dir":           "--data-dir",
		"sandbox hibernate ":               "box1",
		"snapshot rm ":                     "snap1 loaded",
		"sandbox create --from-snapshot l": "loaded",
		"sandbox create --on-timeout ":     "kill hibernate",
		"completion ":                      "bash zsh fish",
		"sandbox get --api-key ":           "",
	} {
		words := strings.Split(line, " ")
		got := a.command(t.Context(), append([]string{"__complete", "--"}, words...)...)
		if found := strings.Join(strings.Fields(got.out), " "); got.code != 0 || found != want {
			t.Errorf("%q: %q, want %q (%+v)", line, found, want, got)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := a.command(t.Context(), "completion", shell); got.code != 0 || !strings.Contains(got.out, "__complete") {
			t.Errorf("%s: %+v", shell, got)
		}
	}
}

func TestGetShowsWhatIsUsed(t *testing.T) {
	rows := usageRows(&api.Usage{Network: "none", Memory: api.HostMemory{HostPrivateBytes: 50_000_000}, Disk: api.HostDisk{HostBytes: 1000},
		Guest: &api.GuestUsage{MemoryTotalBytes: 1e9, MemoryAvailableBytes: 6e8, CPUSeconds: 1.25, UptimeSeconds: 9, DiskTotalBytes: 8e9, DiskUsedBytes: 1e9}})
	want := [][]string{
		{"memory", "50.0 MB of this host; in the guest 400.0 MB of 1.0 GB in use"},
		{"cpu", "1.2 s in the 9 s since its start"},
		{"disk", "1.0 kB of this host; in the guest 1.0 GB of 8.0 GB in use"},
		{"network", "none"},
	}
	for i, row := range rows {
		if strings.Join(row, ": ") != strings.Join(want[i], ": ") {
			t.Errorf("got %v, want %v", row, want[i])
		}
	}
	if len(usageRows(&api.Usage{})) != 3 || usageRows(nil) != nil {
		t.Error("a guest that does not answer, or no usage, is shown wrongly")
	}
}
