// Package metrics makes the registry that a component's parts register with, says what metrics must look
// like, and serves them beside pprof for the tiers that have no HTTP of their own.
package metrics

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Prefix begins the name of every metric of ours; the rest is <component>_<what>_<unit>.
const Prefix = "splashdam_"

// NewRegistry makes a registry with the figures that every process has: the Go runtime, the process
// itself, and which build it is. One process has one; where several components share a process, give
// each its part through ForComponent.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	return reg
}

// ForComponent gives the part of reg that belongs to one component of a shared process: the same metrics
// with a label that names the component ("node-1"), so that two nodes in one process do not collide.
func ForComponent(reg prometheus.Registerer, name string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"component": name}, reg)
}

// buildInfo is the usual gauge that is always 1 and carries the build in its labels.
func buildInfo() prometheus.Collector {
	version, revision, goVersion := "unknown", "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version, goVersion = info.Main.Version, info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: Prefix + "build_info",
		Help: "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{
			"version": version, "revision": revision, "go_version": goVersion,
		},
	}, func() float64 { return 1 })
}
