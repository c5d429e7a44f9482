// Package architecture tests in which direction the packages of the project import each other: knowledge in internal
// is pure, adapters point inwards, and only the commands know everything. It also tests what a build relies on: which
// code of libraries the programs contain, and that product and tools share the versions of modules; and that no program
// is committed.
package architecture
