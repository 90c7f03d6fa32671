package metrics

// Names of the metrics. A name that was published stays.
const (
	sandboxStarts     = "pandastack_sandbox_start_seconds"      // histogram by kind
	sandboxStartSteps = "pandastack_sandbox_start_step_seconds" // histogram by kind, step
	sandboxNotStarted = "pandastack_sandbox_start_failures_total"
	poolFills         = "pandastack_pool_fill_seconds" // histogram by outcome
	poolReady         = "pandastack_pool_ready"
	poolWanted        = "pandastack_pool_wanted"
	sandboxFailures   = "pandastack_sandbox_failures_total"
	cells             = "pandastack_cell_seconds"    // histogram by status
	processes         = "pandastack_exec_seconds"    // histogram by outcome
	requests          = "pandastack_request_seconds" // histogram by route, status
	sandboxes         = "pandastack_sandboxes"       // gauge by status
	memoryReserved    = "pandastack_sandbox_memory_reserved_bytes"
	memoryLimit       = "pandastack_sandbox_memory_limit_bytes"
	buildInfo         = "pandastack_build_info"
	labelKind         = "kind"
	labelStep         = "step"
	labelCode         = "code"
	labelStatus       = "status"
	labelOutcome      = "outcome"
	labelRoute        = "route"
	labelVersion      = "version"
	labelAccelerator  = "accelerator"
	maxStepNames      = 32 // steps beyond these are counted as other
	otherStep         = "other"
)
