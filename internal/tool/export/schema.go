package export

import (
	"fmt"
	"regexp"
	"strings"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/tool/reference"
)

// Schema returns a JSON schema of Services, with which editors complete and validate annotations. It validates only
// single values: neither combinations of keys nor unknown keys.
func Schema(entries []reference.Entry) map[string]any {
	properties, families := map[string]any{}, map[string]any{}
	for _, e := range entries {
		one := value(e)
		for _, key := range append([]string{e.Key}, e.Aliases...) {
			if strings.Contains(key, "{") {
				families["^"+document.KeyPattern(key)+"$"] = one
				continue
			}
			properties[key] = one
			if e.PortForm != "" {
				families["^"+regexp.QuoteMeta(key)+`\.[^.]+$`] = one
			}
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Service",
		"type":    "object",
		"properties": map[string]any{
			"metadata": map[string]any{
				"type": "object",
				"properties": map[string]any{
					"annotations": map[string]any{
						"type": "object", "properties": properties, "patternProperties": families,
						"additionalProperties": map[string]any{"type": "string"},
					},
				},
			},
		},
	}
}

func value(e reference.Entry) map[string]any {
	s := map[string]any{
		"type":        "string",
		"title":       fmt.Sprintf("%s (%s)", e.Key, e.Title),
		"description": fmt.Sprintf("%s Must be %s.", e.Help, e.Allowed),
		"examples":    []string{e.Example},
	}
	if e.Values != nil {
		s["enum"] = e.Values
	}
	if e.Pattern != "" {
		s["pattern"] = "^(?:" + e.Pattern + ")$"
	}
	if e.Default != "" && !strings.Contains(e.Default, " ") {
		s["default"] = e.Default
	}
	if e.Deprecated != "" {
		s["deprecated"] = true
	}
	return s
}
