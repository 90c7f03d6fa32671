package app

import (
	"embed"
	"fmt"
	"io/fs"

	"pandastack/api"
	"pandastack/guestpy"
	"pandastack/internal/panda"
)

// embedded holds the guest agent once it was built; the folder is there without it.
//
//go:embed all:embedded
var embedded embed.FS

// guestAgent gives the agent, or says that this program was built without it.
func guestAgent() ([]byte, error) {
	agent, err := embedded.ReadFile("embedded/pandastack-guest")
	if err != nil {
		return nil, &panda.Error{
			Code:    api.CodeTemplateBuildFailed,
			Message: "this program was built without the guest agent",
			Hint:    "Build it with 'make build'.",
			Cause:   err,
		}
	}
	return agent, nil
}

// kernelHost gives the Python package that runs cells in the guest.
func kernelHost() (fs.FS, error) {
	host, err := fs.Sub(guestpy.FS, "pandastack_kernel")
	if err != nil {
		return nil, fmt.Errorf("kernel host: %w", err)
	}
	return host, nil
}
