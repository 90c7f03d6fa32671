package api

import "time"

// Snapshot is a saved state of a sandbox, memory and disk. Any number of
// sandboxes can be made from it.
type Snapshot struct {
	ID          string            `json:"id" doc:"20 characters of a-z0-9"`
	Name        string            `json:"name,omitempty" doc:"another name of it, where one was given"`
	SandboxID   string            `json:"sandbox_id" doc:"what it was taken of, which may be gone"`
	Template    string            `json:"template"`
	CreatedAt   time.Time         `json:"created_at"`
	CPU         int               `json:"cpu" doc:"virtual CPUs"`
	MemoryMB    int               `json:"memory_mb"`
	Metadata    map[string]string `json:"metadata" doc:"the sandbox's, and what was given with the snapshot"`
	MemoryBytes int64             `json:"memory_bytes" doc:"on the server's disk, for memory"`
	DiskBytes   int64             `json:"disk_bytes" doc:"on the server's disk, for the sandbox's disk"`
	PauseMS     float64           `json:"pause_ms" doc:"for how long the sandbox stood still"`
	TotalMS     float64           `json:"total_ms" doc:"until all was on disk"`
}

// SnapshotList answers GET /v1/snapshots.
type SnapshotList struct {
	Items     []Snapshot `json:"items"`
	Snapshots []Snapshot `json:"snapshots" doc:"the same, where PandaStack's published clients look"`
}

// TakeSnapshot asks for a snapshot.
type TakeSnapshot struct {
	Name     string            `json:"name,omitempty" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" doc:"under which it is found too; no two snapshots have the same"`
	Metadata map[string]string `json:"metadata,omitempty" maxProperties:"64" doc:"in addition to the sandbox's"`
}

// Saved is what a hibernated sandbox has on disk.
type Saved struct {
	MemoryBytes  int64   `json:"memory_bytes" doc:"pages that differ from the template's, before compression"`
	WrittenBytes int64   `json:"written_bytes" doc:"those that this hibernation had to write; the others were on disk already"`
	DiskBytes    int64   `json:"disk_bytes" doc:"on the server's disk, for the sandbox's disk"`
	TotalMS      float64 `json:"total_ms" doc:"until all was on disk"`
}

// Wake asks for a hibernated sandbox to run again.
type Wake struct {
	From string `json:"from,omitempty" enum:"memory,disk" default:"memory" doc:"disk boots anew from its files: what was in memory is lost"`
}

// Fork asks for a copy of a sandbox.
type Fork struct {
	Metadata map[string]string `json:"metadata,omitempty" maxProperties:"64" doc:"in addition to the sandbox's"`
}

// Forked answers POST …/fork.
type Forked struct {
	Sandbox Sandbox `json:"sandbox"`
}

// ForkTree asks for several copies that are equal but for what must differ.
type ForkTree struct {
	Count    int               `json:"count" minimum:"1" maximum:"16"`
	Metadata map[string]string `json:"metadata,omitempty" maxProperties:"64" doc:"in addition to the sandbox's"`
}

// ForkedTree answers POST …/fork-tree.
type ForkedTree struct {
	TreeID   string    `json:"tree_id"`
	Children []Sandbox `json:"children"`
}

// Promote makes one copy of a tree the one that stays.
type Promote struct {
	CleanupSiblings bool   `json:"cleanup_siblings,omitempty" doc:"delete the other copies"`
	TreeID          string `json:"tree_id,omitempty" doc:"default the sandbox's own"`
}

// Promoted answers POST …/promote.
type Promoted struct {
	Winner   string            `json:"winner" doc:"the sandbox that stays"`
	TreeID   string            `json:"tree_id"`
	Deleted  []string          `json:"deleted" doc:"copies that are gone"`
	Failures map[string]string `json:"failures" doc:"copies that could not be deleted, and why"`
}
