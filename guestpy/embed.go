// Package guestpy carries the Python kernel host that runs in a sandbox.
package guestpy

import "embed"

// FS has the folder pandastack_kernel.
//
//go:embed pandastack_kernel/*.py
var FS embed.FS
