package qemu

// Names of the files a machine leaves in its folder.
const (
	ConsoleFile = "console.log"
	LogFile     = "vmm.log"
)

// consoleLimit bounds each file of the console's log; see boundlog.
const consoleLimit = 256 << 10
