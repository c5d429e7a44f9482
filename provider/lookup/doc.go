// Package lookup reads volumes and volume types for admission, where a user waits for the answer. Reads have a timeout
// and are limited in number, concurrent reads of the same object are merged, and results are cached for a short time,
// including failures.
package lookup
