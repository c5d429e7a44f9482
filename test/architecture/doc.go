// Package architecture tests in which direction the packages of the project import each other: knowledge in internal
// is pure, adapters point inwards, and only the commands know everything.
package architecture
