package qemu

// LogFile is what QEMU itself prints, in the machine's folder.
const LogFile = "vmm.log"

// consoleLimit bounds each file of the console's log; a guest may write without end.
const consoleLimit = 256 << 10
