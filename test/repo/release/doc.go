// Package release tests what is shipped: the image, and the files that make release writes.
package release
