// Package process runs the programs of a test or demonstration as child processes, keeps their output in files and
// stops exactly what it started.
//
// A child leads its own process group, so that a signal from the terminal reaches the parent alone and children end
// in the order the parent chooses. Where the kernel can do it, a child dies with its parent. What still outlives a
// killed parent is found again through PID files, which hold a start time beside the number: numbers are reused.
package process
