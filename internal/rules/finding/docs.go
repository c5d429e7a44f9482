package finding

import (
	_ "embed"
	"sync"

	"sigs.k8s.io/yaml"
)

// Doc documents a finding id.
type Doc struct {
	// ID is the finding's.
	ID string `json:"id"`
	// Severity is that of a finding that an update introduces.
	Severity Severity `json:"severity"`
	// Help describes in a sentence or two when the finding occurs.
	Help string `json:"help"`
}

// Chapter documents the findings about one topic.
type Chapter struct {
	Title    string `json:"title"`
	Findings []Doc  `json:"findings"`
}

// Documentation documents all findings, except for those of the checks of single catalogs.
type Documentation struct {
	// Chapters contain the findings that belong to no catalog.
	Chapters []Chapter `json:"chapters"`
	// Catalogs are the findings of every catalog, and OwnCatalog those that differ for that of Quaymaster's own controller.
	// The ids have no prefix.
	Catalogs   []Doc `json:"catalogs"`
	OwnCatalog []Doc `json:"ownCatalog"`
}

//go:embed docs.yaml
var docs []byte

// Docs returns the documentation, which must not be modified.
var Docs = sync.OnceValue(func() Documentation {
	var d Documentation
	if err := yaml.UnmarshalStrict(docs, &d); err != nil {
		panic(err) // it is embedded
	}
	return d
})
