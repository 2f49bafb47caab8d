package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"sigs.k8s.io/yaml"
)

// configFile is what a user keeps: servers and habits by name.
type configFile struct {
	Profile  string             `json:"profile"` // the one without --profile; "" for none
	Profiles map[string]profile `json:"profiles"`
}

// profile stands for flags that are neither on the command line nor in the environment.
type profile struct {
	Server  []string `json:"server"`
	Output  string   `json:"output"`
	Timeout string   `json:"timeout"`
}

// maxConfigFile bounds the file: beyond it is no configuration, but a mistake.
const maxConfigFile = 1 << 20

// configPath is where the file is: SPLASHDAM_CONFIG, or splashdam/config.yaml where the system keeps a user's configuration.
func configPath() (path string, chosen bool) {
	if path := os.Getenv("SPLASHDAM_CONFIG"); path != "" {
		return path, true
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", false
	}
	return filepath.Join(dir, "splashdam", "config.yaml"), false
}

// readProfile finds the profile that a command line names, or the file's default; the zero value without either.
func readProfile(name string) (profile, error) {
	path, chosen := configPath()
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && name == "" && !chosen:
		return profile{}, nil
	case err != nil:
		return profile{}, fmt.Errorf("the configuration can't be read: %w", err)
	case info.Size() > maxConfigFile:
		return profile{}, fmt.Errorf("%s has more than %d bytes", path, maxConfigFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return profile{}, fmt.Errorf("the configuration can't be read: %w", err)
	}
	var file configFile
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return profile{}, fmt.Errorf("%s: %w", path, err)
	}
	if name == "" {
		name = file.Profile
	}
	p, ok := file.Profiles[name]
	if name != "" && !ok {
		return profile{}, fmt.Errorf("%s has no profile %q", path, name)
	}
	return p, nil
}

// namedProfile is what --profile says, or SPLASHDAM_PROFILE. It is needed before kong reads the other flags.
func namedProfile(args []string) string {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if name, ok := strings.CutPrefix(arg, "--profile="); ok {
			return name
		}
		if arg == "--profile" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return os.Getenv("SPLASHDAM_PROFILE")
}

// resolve gives kong the flags that neither the command line nor the environment has.
func (p *profile) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if slices.ContainsFunc(flag.Envs, func(name string) bool { return os.Getenv(name) != "" }) {
		return nil, nil
	}
	value := map[string]string{"server": strings.Join(p.Server, ","), "output": p.Output, "timeout": p.Timeout}[flag.Name]
	if value == "" {
		return nil, nil
	}
	return value, nil
}
