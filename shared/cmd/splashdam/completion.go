package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completeWord is the first argument by which the scripts ask the program itself what a word may become; the words that are
// there follow, the last one unfinished. It is no command: nobody types it.
const completeWord = "__complete"

// completionCmd prints a script for a shell; it needs no server.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

var completionScripts = map[string]string{
	"bash": `_splashdam() {
  local IFS=$'\n'
  COMPREPLY=($(splashdam __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _splashdam splashdam
`,
	"zsh": `#compdef splashdam
_splashdam() {
  local -a found
  found=("${(@f)$(splashdam __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _splashdam splashdam
`,
	"fish": `function __splashdam_complete
  set -l before (commandline -opc)
  set -l current (commandline -ct)
  splashdam __complete $before[2..-1] "$current" 2>/dev/null
end
complete -c splashdam -a '(__splashdam_complete)'
`,
}

func (c *completionCmd) Run(s *session) error {
	_, err := io.WriteString(s.out, completionScripts[c.Shell])
	return err
}

// complete prints what the last word may become, a line each; nothing where only the user knows, as for names of topics.
func complete(w io.Writer, app *kong.Node, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	before, current := words[:len(words)-1], words[len(words)-1]
	node := app
	flags := slices.Clone(app.Flags)
	var waits *kong.Flag // for its value
	for _, word := range before {
		switch {
		case waits != nil:
			waits = nil
		case strings.HasPrefix(word, "-"):
			waits = valueFlag(flags, word)
		default:
			at := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
			if at >= 0 {
				node = node.Children[at]
				flags = append(flags, node.Flags...)
			}
		}
	}
	for _, c := range candidates(node, flags, waits, current) {
		if strings.HasPrefix(c, current) {
			fmt.Fprintln(w, c)
		}
	}
}

// valueFlag is the flag that a word names, if its value is the next word.
func valueFlag(flags []*kong.Flag, word string) *kong.Flag {
	for _, f := range flags {
		if (word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)) && !f.IsBool() {
			return f
		}
	}
	return nil
}

// candidates are all that may stand at a place.
func candidates(node *kong.Node, flags []*kong.Flag, waits *kong.Flag, current string) (out []string) {
	switch {
	case waits != nil:
		if waits.Enum != "" {
			out = waits.EnumSlice()
		}
	case strings.HasPrefix(current, "-"):
		for _, f := range flags {
			if !f.Hidden {
				out = append(out, "--"+f.Name)
			}
		}
	default:
		for _, c := range node.Children {
			if !c.Hidden {
				out = append(out, c.Name)
			}
		}
		if len(node.Children) == 0 && len(node.Positional) > 0 && node.Positional[0].Enum != "" {
			out = node.Positional[0].EnumSlice()
		}
	}
	slices.Sort(out)
	return out
}
