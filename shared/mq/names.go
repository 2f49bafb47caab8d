package mq

import "fmt"

// MaxNameLength is the longest topic, group, node or webhook name, in bytes.
const MaxNameLength = 249

// CheckName reports why a name is not usable, or nil. A name is 1 to 249 of A-Z a-z 0-9 . _ - and
// begins with a letter or a digit, so that no name is a path, a flag or a hidden file.
func CheckName(name string) error {
	if name == "" {
		return fmt.Errorf("a name must not be empty")
	}
	if len(name) > MaxNameLength {
		return fmt.Errorf("a name has at most %d bytes, this one has %d", MaxNameLength, len(name))
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if alnum || i > 0 && (c == '.' || c == '_' || c == '-') {
			continue
		}
		if i == 0 {
			return fmt.Errorf("a name begins with a letter or a digit, this one with %q", name[:1])
		}
		return fmt.Errorf("a name holds letters, digits, '.', '_' and '-'; byte %d is %q", i, name[i:i+1])
	}
	return nil
}
