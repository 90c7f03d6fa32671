package cli

func (sandboxPauseCmd) Help() string {
	return `A paused sandbox keeps its memory and uses no CPU; calls on it are refused until it goes on.

Examples:

  pandastack sandbox pause SANDBOX
  pandastack sandbox resume SANDBOX`
}

func (sandboxResumeCmd) Help() string {
	return `Examples:

  pandastack sandbox resume SANDBOX`
}

func (sandboxHibernateCmd) Help() string {
	return `What runs in it goes on where it was when it wakes, which the next call on it does by itself.

Examples:

  pandastack sandbox hibernate SANDBOX`
}

func (sandboxWakeCmd) Help() string {
	return `--from-disk is for a state in memory that was damaged, or does not fit this host any more.

Examples:

  pandastack sandbox wake SANDBOX
  pandastack sandbox wake --from-disk SANDBOX`
}

func (sandboxSnapshotCmd) Help() string {
	return `Memory with all that runs, and disk. The sandbox goes on. Any number of sandboxes can be made from a snapshot, also when its sandbox is gone.

Examples:

  pandastack sandbox snapshot --name loaded SANDBOX
  pandastack sandbox create --from-snapshot loaded`
}

func (sandboxForkCmd) Help() string {
	return `Copies go on from this moment with all that runs, but have ids and random numbers of their own. The sandbox goes on. All copies are made or none.

Examples:

  pandastack sandbox fork SANDBOX
  pandastack sandbox fork --count 4 --metadata try=1 SANDBOX`
}

func (snapshotLsCmd) Help() string {
	return `Examples:

  pandastack snapshot ls
  pandastack snapshot ls --sandbox SANDBOX --json`
}

func (snapshotGetCmd) Help() string {
	return `Examples:

  pandastack snapshot get loaded
  pandastack snapshot get --json loaded | jq .memory_bytes`
}

func (snapshotRmCmd) Help() string {
	return `Prints each that is gone. Sandboxes made from it go on.

Examples:

  pandastack snapshot rm loaded`
}
