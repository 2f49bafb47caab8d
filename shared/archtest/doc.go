// Package archtest holds the rules of docs/ARCHITECTURE.md as tests: which package may import which,
// what pure packages may not touch, that generated code is in sync with its source, that documents name
// files and functions that exist. It has no code of its own. A test that fails names the file and the rule; change
// the code, or change the rule here and in the document together.
package archtest
