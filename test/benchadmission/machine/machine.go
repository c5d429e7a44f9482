// Package machine isolates the network of the admission benchmark and reads what its processes use. It works on Linux.
package machine

import "time"

// Memory is the resident memory of a process in bytes.
type Memory struct {
	// Resident is the sum of Anonymous, of File, which maps files such as the program itself, and of shared memory.
	Resident, Anonymous, File int64
	// Peak is the most resident memory since the start of the process, or since ResetPeak.
	Peak int64
}

// Facts describe a machine.
type Facts struct {
	Processor, Kernel string
	Cores             int
	Memory            int64
}

// Usage is the CPU time that all processes of the machine have used since it started.
type Usage time.Duration
