package app

import (
	"errors"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/internal/cli"
	"pandastack/internal/panda"
)

func TestDoctorReportsEveryCheck(t *testing.T) {
	cfg := aConfig(t)
	t.Setenv("PATH", t.TempDir()) // no VMM, no programs
	byName := map[string]cli.Check{}
	if err := Doctor(t.Context(), cfg, func(c cli.Check) { byName[c.Name] = c }); err != nil {
		t.Fatal(err)
	}
	if len(byName) != len(exams) {
		t.Errorf("%d checks reported, want %d", len(byName), len(exams))
	}
	for name, want := range map[string]string{
		"qemu": cli.Fail, "qemu monitor": cli.Warn, "programs": cli.Warn, "data directory": cli.OK, "sealed memory": cli.OK,
	} {
		if got := byName[name]; got.Status != want {
			t.Errorf("%s: got %+v, want %s", name, got, want)
		}
	}
	if !strings.Contains(byName["qemu"].Hint, "apt-get install") {
		t.Errorf("hint %q does not say what to do", byName["qemu"].Hint)
	}
}

func TestReadCommands(t *testing.T) {
	const talk = `{"QMP": {"version": {}}}` + "\n" + `{"return": {}}` + "\n" +
		`{"return": [{"name": "stop"}, {"name": "cont"}], "id": "list"}` + "\n" + `{"return": {}}` + "\n"
	got, err := readCommands(strings.NewReader(talk))
	if err != nil || strings.Join(got, " ") != "stop cont" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestExplain(t *testing.T) {
	err := errors.Join(&panda.Error{Code: api.CodeHostNoVMM, Message: "no QEMU", Cause: errors.New("not found")})
	got := explain(err)
	if got.Message != "no QEMU" || got.Code != api.CodeHostNoVMM || got.Hint == "" || got.More != "not found" {
		t.Errorf("got %+v", got)
	}
}
