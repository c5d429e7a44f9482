// Package lookup reads volumes and their types for admission, where somebody waits for the answer: within a time, at most a few
// at once, once for all who ask the same, and not again what was read a moment ago. That holds for failures, too.
package lookup
