// Package process runs the programs of a test or demonstration as child processes, writes their output to files and
// stops only the processes that it started.
//
// Each child leads its own process group, so that a signal from the terminal reaches only the parent and children are
// stopped in the order that the parent chooses. If the kernel supports it, a child is killed with its parent. Children
// that outlive a killed parent are found through PID files, which also contain the start time because process IDs are
// reused.
package process
