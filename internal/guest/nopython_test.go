package guest_test

import (
	"errors"
	"log/slog"
	"testing"

	"pandastack/internal/guest"
	"pandastack/internal/guestproto"
)

func TestTemplateWithoutPython(t *testing.T) {
	a := guest.New(guest.Config{Workspace: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	defer a.Close()
	_, err := a.CreateKernel(t.Context(), guestproto.KernelRequest{ID: "k", Language: "python"})
	var refusal *guestproto.Error
	if !errors.As(err, &refusal) || refusal.Code != guestproto.CodeUnsupported {
		t.Errorf("a kernel: %v, want %s", err, guestproto.CodeUnsupported)
	}
	if err := a.Warm(t.Context(), guestproto.WarmRequest{}); err != nil {
		t.Errorf("nothing to warm: %v", err)
	}
	if err := a.Warm(t.Context(), guestproto.WarmRequest{Cells: []string{"1"}}); !errors.As(err, &refusal) {
		t.Errorf("a cell to warm: %v", err)
	}
}
