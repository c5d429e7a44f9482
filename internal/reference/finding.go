package reference

import (
	"fmt"
	"slices"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/rules"
	"quaymaster.dev/internal/volume"
)

// Chapter are the findings about one thing.
type Chapter struct {
	Title string
	Rules []rules.Rule
}

// Chapters are the findings that every program has, other clouds' apart.
func Chapters() []Chapter {
	return []Chapter{
		{"Services of type LoadBalancer", loadbalancer.Rules()},
		{"Services under policies", policy.Rules()},
		{"Policies", policy.DefinitionRules()},
		{"PersistentVolumes", volume.ZoneRules()},
		{"PersistentVolumeClaims", volume.GrowthRules()},
	}
}

// Finding explains the id of a finding.
func Finding(id string) (text string, found bool) {
	all := Chapters()
	for _, name := range catalog.Names() {
		if c, _ := catalog.Find(name); c.Names(id) {
			all = append(all, Chapter{"Services of type LoadBalancer of " + c.Title, c.Rules()})
		}
	}
	for _, chapter := range all {
		at := slices.IndexFunc(chapter.Rules, func(r rules.Rule) bool { return r.ID == id })
		if at >= 0 {
			r := chapter.Rules[at]
			return fmt.Sprintf("%s\n  a finding (%s) about %s\n\n  %s\n", r.ID, r.Severity, chapter.Title, r.Help), true
		}
	}
	return "", false
}
