package qemu

import (
	"fmt"
	"os"
	"strconv"

	"pandastack/internal/vmm"
)

// firstFD is the number of the first descriptor the VMM inherits besides the
// standard three.
const firstFD = 3

// fdTable numbers the files a VMM inherits.
type fdTable struct{ files []*os.File }

func (t *fdTable) add(f *os.File) int {
	t.files = append(t.files, f)
	return firstFD + len(t.files) - 1
}

// sockets are the VMM's ends of what it talks through.
type sockets struct {
	qmp, agent, events, console, net *os.File
}

// arguments gives the command line for spec and the files it names by number.
// The device list is an ABI of every snapshot (design §4.2): a change here
// makes all templates rebake.
func arguments(spec vmm.Spec, s sockets) (args []string, files []*os.File) {
	var fds fdTable
	args = machineArgs(spec, &fds)
	args = append(args, diskArgs(spec, &fds)...)
	args = append(args, portArgs(s, &fds)...)
	if spec.State != nil {
		args = append(args, "-incoming", "defer", "-S", "-global", "migration.send-configuration=off")
	}
	return args, fds.files
}

func machineArgs(spec vmm.Spec, fds *fdTable) []string {
	mb := strconv.Itoa(spec.MemoryMB)
	share := "off"
	if spec.MemoryShared {
		share = "on"
	}
	accel := spec.Accelerator
	if accel == "tcg" {
		accel = "tcg,tb-size=64" // MiB of translated code; the default is 1 GiB
	}
	return []string{
		"-name", "pandastack-" + spec.ID,
		"-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-M", "microvm,x-option-roms=on,rtc=on,suppress-vmdesc=on,memory-backend=mem",
		"-accel", accel, "-cpu", spec.CPUModel, "-smp", strconv.Itoa(spec.CPUs), "-m", mb,
		"-object", fmt.Sprintf("memory-backend-file,id=mem,size=%sM,mem-path=%s,share=%s,merge=off,dump=off",
			mb, procFD(fds.add(spec.Memory)), share),
		"-kernel", procFD(fds.add(spec.Kernel)),
		"-initrd", procFD(fds.add(spec.Initrd)),
		"-append", spec.Cmdline,
	}
}

// diskArgs attaches the read-only base and the writable upper, which is a
// qcow2 overlay on a read-only file, or that file itself.
func diskArgs(spec vmm.Spec, fds *fdTable) []string {
	args := fdSet(fds, "1", spec.Base)
	args = append(args, fdSet(fds, "2", spec.Upper.Raw)...)
	args = append(args,
		"-blockdev", "driver=file,node-name=base-file,filename=/dev/fdset/1,read-only=on",
		"-blockdev", "driver=raw,node-name=base,file=base-file,read-only=on")
	if spec.Upper.Overlay == nil {
		args = append(args,
			"-blockdev", "driver=file,node-name=upper-file,filename=/dev/fdset/2",
			"-blockdev", "driver=raw,node-name=upper,file=upper-file")
	} else {
		args = append(args, fdSet(fds, "3", spec.Upper.Overlay)...)
		args = append(args,
			"-blockdev", "driver=file,node-name=backing-file,filename=/dev/fdset/2,read-only=on",
			"-blockdev", "driver=raw,node-name=backing,file=backing-file,read-only=on",
			"-blockdev", "driver=file,node-name=upper-file,filename=/dev/fdset/3,discard=unmap",
			"-blockdev", "driver=qcow2,node-name=upper,file=upper-file,backing=backing,discard=unmap")
	}
	return append(args,
		"-device", "virtio-blk-device,drive=base",
		"-device", "virtio-blk-device,drive=upper")
}

func portArgs(s sockets, fds *fdTable) []string {
	socket := func(id string, f *os.File) []string {
		return []string{"-chardev", fmt.Sprintf("socket,id=%s,fd=%d", id, fds.add(f))}
	}
	args := append(socket("qmp", s.qmp), "-mon", "chardev=qmp,mode=control")
	args = append(args, socket("console", s.console)...)
	args = append(args, "-serial", "chardev:console", "-device", "virtio-serial-device")
	args = append(args, socket("agent", s.agent)...)
	args = append(args, "-device", "virtserialport,chardev=agent,name=agent")
	args = append(args, socket("events", s.events)...)
	args = append(args, "-device", "virtserialport,chardev=events,name=events")
	return append(args,
		"-netdev", fmt.Sprintf("stream,id=net,server=off,addr.type=fd,addr.str=%d", fds.add(s.net)),
		"-device", "virtio-net-device,netdev=net,mac=52:54:00:00:00:02",
		"-object", "rng-builtin,id=rng", "-device", "virtio-rng-device,rng=rng")
}

func procFD(n int) string { return fmt.Sprintf("/proc/self/fd/%d", n) }

func fdSet(fds *fdTable, set string, f *os.File) []string {
	return []string{"-add-fd", fmt.Sprintf("fd=%d,set=%s", fds.add(f), set)}
}
