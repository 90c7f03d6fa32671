package app

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"pandastack/internal/kit/failpoint"
	"pandastack/internal/kit/jail"
	"pandastack/internal/shim"
	"pandastack/internal/vmm/qemu"
)

// Helper runs this program as one of the processes it starts of itself, if the
// arguments say so: the shim of a machine, or the stage that jails a VMM.
func Helper(ctx context.Context, args []string) (mine bool, err error) {
	if len(args) == 0 {
		return false, nil
	}
	switch args[0] {
	case jail.Command:
		return true, jail.Main(args[1:])
	case shim.Command:
		return true, shimMain(ctx, args[1:])
	}
	return false, nil
}

// shimMain takes the run folder and what newMachines put in Launcher.Flags.
func shimMain(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("shim: this command is for the server; it wants a run folder and an accelerator")
	}
	failpoint.Arm("shim", os.Getenv(failpoint.Env))
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return shim.Main(ctx, args[0], &qemu.Driver{Accelerator: args[1]}, log)
}
