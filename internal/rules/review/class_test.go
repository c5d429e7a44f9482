package review_test

import (
	"testing"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
)

// Without defaultClass, admission and controllers leave Services without a class to others: their keys of the DLB only
// cause a warning, and they get no defaults. Services of the class are as before.
func TestDefaultClass(t *testing.T) {
	const class = "mycloud.io/dlb"
	bad := builder.DLB("listener-maxqps", "many")
	for _, defaultClass := range []bool{false, true} {
		admission, err := review.New(catalog.Options{Catalogs: []string{loadbalancer.Catalog}, Class: class, DefaultClass: defaultClass})
		if err != nil {
			t.Fatal(err)
		}
		controllers := review.Own(class, defaultClass)
		for _, reviewer := range []review.Reviewer{admission, controllers} {
			if owned := reviewer.Owned(builder.Service()); owned != defaultClass {
				t.Errorf("default class %t: a service without a class is owned: %t", defaultClass, owned)
			}
			if !reviewer.Owned(builder.Service(builder.Class(class))) || reviewer.Owned(builder.Service(builder.Class("example.com/other"))) {
				t.Errorf("default class %t: services with a class are not owned as before", defaultClass)
			}
			if denied := finding.Deny(reviewer.Review(nil, builder.Service(bad), nil)); denied != defaultClass {
				t.Errorf("default class %t: a service without a class is denied: %t", defaultClass, denied)
			}
			if !finding.Deny(reviewer.Review(nil, builder.Service(bad, builder.Class(class)), nil)) {
				t.Errorf("default class %t: a service of the class is not denied", defaultClass)
			}
		}
		if written := len(admission.Defaults(builder.Service(), nil)) > 0; written != defaultClass {
			t.Errorf("default class %t: defaults of a service without a class are written: %t", defaultClass, written)
		}
	}
}

// Whose a Service is, controllers ask at every change of it, and metrics about every Service at once.
func TestOwnedParsesNothing(t *testing.T) {
	reviewer, err := review.New(catalog.Options{
		Catalogs: []string{loadbalancer.Catalog}, Class: "mycloud.io/dlb", DefaultClass: true, OnParse: func(key string) { t.Errorf("%s was parsed", key) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reviewer.Owned(builder.Service(builder.DLB("listener-maxqps", "5000"))) {
		t.Error("the service is not owned")
	}
}
