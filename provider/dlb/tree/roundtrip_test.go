package tree

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
)

// notObserved lists the fields of the desired state that Observed does not read from the load balancer, each with the
// reason.
var notObserved = map[string]string{
	"IngressGroup":   "the cloud knows only the id of the node group",
	"Tags":           "the load balancer may have tags of others, so Observed only compares those wanted",
	"RetainOnDelete": "never sent: the provider reads it when it deletes",
	"AdoptID":        "never sent: the provider reads it to find the load balancer to adopt",
	"Hostname":       "never sent: it is published in the Service's status",
}

// notInTree lists the fields that clients may write and that fields does not set, each with the reason.
var notInTree = map[string]string{
	"Name":          "chosen by the caller, because it depends on the names that are taken",
	"Tags":          "Wanted adds the tags",
	"VIPs.ID":       "assigned by the cloud; Settle keeps it",
	"VIPs.Address":  "assigned by the cloud; Settle keeps it",
	"Pools.Members": "the members are those of the node group",
}

// The test walks the desired state by reflection: a field that is added to it fails here until tree.go sends it to the
// cloud and observed.go reads it back, or until notObserved says why not.
func TestEveryFieldSurvivesTheCloud(t *testing.T) {
	original, other := filled(t, true), filled(t, false)
	each(reflect.ValueOf(original), "", func(path string, v reflect.Value) {
		if v.IsZero() {
			t.Errorf("the test leaves %s empty", path)
		}
	})
	lb := returned(t, original)

	for _, path := range differences(t, original, Observed(original, lb)) {
		t.Errorf("%s differs from the wanted value, though the load balancer was built from it", path)
	}
	// Starting from another desired state shows what Observed takes from the load balancer, not from what is wanted.
	changed := differences(t, original, Observed(other, lb))
	for _, path := range changed {
		if _, known := notObserved[plain(path)]; !known {
			t.Errorf(
				"%s does not survive: set it in tree.go and read it in observed.go, or add it to notObserved with the reason", path,
			)
		}
	}
	for path := range notObserved {
		if !slices.ContainsFunc(changed, func(c string) bool { return plain(c) == path }) {
			t.Errorf("%s survives, or does not exist: remove it from notObserved", path)
		}
	}
}

func TestEveryFieldOfTheTreeIsSet(t *testing.T) {
	spec := cloudv1.LoadBalancerSpec{LoadBalancerFields: fieldsOf(filled(t, true))}
	// One element of a list that sets a field is enough.
	set := map[string]bool{}
	each(reflect.ValueOf(&spec), "", func(path string, v reflect.Value) {
		path = plain(strings.TrimPrefix(path, "LoadBalancerFields."))
		set[path] = set[path] || !v.IsZero()
	})
	for path, isSet := range set {
		_, known := notInTree[path]
		switch {
		case !isSet && !known:
			t.Errorf("%s is not set: set it in tree.go, or add it to notInTree with the reason", path)
		case isSet && known:
			t.Errorf("%s is set: remove it from notInTree", path)
		}
	}
	for path := range notInTree {
		if _, exists := set[path]; !exists {
			t.Errorf("%s does not exist: remove it from notInTree", path)
		}
	}
}

func TestDifferences(t *testing.T) {
	lb := returned(t, filled(t, true))
	lb.Tags = map[string]string{"a": "b"}
	if got := Differences(Of(lb), lb); len(got) > 0 {
		t.Errorf("differences to itself: %q", got)
	}
	want := Of(lb)
	want.Zones, want.Tags = []string{"eu-1b"}, map[string]string{"c": "d"}
	want.Pools = append(want.Pools, cloudv1.Pool{Key: "tcp/81", Family: cloudv1.FamilyIPv4})
	got := strings.Join(Differences(want, lb), "\n")
	for _, line := range []string{
		`pools[tcp/81,ipv4].key: unset -> "tcp/81"`, `tags[c]: unset -> "d"`, `tags[a]: "b" -> unset`, `-> ["eu-1b"]`,
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

func fieldsOf(d *loadbalancer.Desired) cloudv1.LoadBalancerFields {
	return fields(d, Network{VPCID: "vpc-main"}, "ng-1")
}

// returned is the load balancer that the cloud returns for a desired state: what was sent, with ids and addresses.
func returned(t *testing.T, d *loadbalancer.Desired) *cloudv1.LoadBalancer {
	t.Helper()
	raw, err := json.Marshal(cloudv1.LoadBalancerSpec{Name: "web", Tags: d.Tags, LoadBalancerFields: fieldsOf(d)})
	if err != nil {
		t.Fatal(err)
	}
	lb := &cloudv1.LoadBalancer{}
	if err := json.Unmarshal(raw, lb); err != nil {
		t.Fatal(err)
	}
	lb.ID, lb.Revision, lb.ProvisioningState = "lb-1", "1", cloudv1.ProvisioningActive
	for i := range lb.VIPs {
		lb.VIPs[i].ID, lb.VIPs[i].Address = fmt.Sprintf("vip-%d", i), "192.0.2.1"
	}
	return lb
}

// filled returns a desired state whose every field differs from its zero value. In the original every field also
// differs from its default; in the other one, every field differs from the original.
func filled(t *testing.T, original bool) *loadbalancer.Desired {
	t.Helper()
	f := filler{t: t, original: original, number: 100}
	if !original {
		f.number = 10000
	}
	d := &loadbalancer.Desired{}
	f.fill(reflect.ValueOf(d).Elem(), "", "")
	return d
}

type filler struct {
	t        *testing.T
	original bool
	// number makes values unique.
	number int64
}

// special holds the values of fields that have no key and no free choice of values.
var special = map[string][2]any{
	"Families":            {[]string{cloudv1.FamilyIPv6, cloudv1.FamilyIPv4}, []string{cloudv1.FamilyIPv4}},
	"Listeners.Transport": {"tcp", "udp"},
}

func (f *filler) fill(v reflect.Value, path string, tag reflect.StructTag) {
	f.number++
	if values, ok := special[plain(path)]; ok {
		v.Set(reflect.ValueOf(f.choose(values[0], values[1])))
		return
	}
	switch v.Interface().(type) {
	case time.Duration:
		v.SetInt(int64(time.Duration(f.number) * time.Second))
		return
	case netip.Prefix:
		v.Set(reflect.ValueOf(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(f.number >> 8), byte(f.number)}), 32)))
		return
	case map[string]string:
		v.Set(reflect.ValueOf(map[string]string{fmt.Sprintf("key-%d", f.number): "value"}))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			f.fill(v.Field(i), join(path, field.Name), field.Tag)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i), "")
		}
	case reflect.String:
		v.SetString(f.text(path, tag))
	case reflect.Bool:
		v.SetBool(f.original)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(f.number)
	default:
		f.t.Fatalf("%s: the test cannot fill a %s yet", path, v.Type())
	}
	if known := describe(tag); f.original && known != nil && fmt.Sprint(v.Interface()) == known.Default {
		f.t.Errorf("the test gives %s its default", path)
	}
}

// describe returns the annotation that a field holds the value of, by its key tag.
func describe(tag reflect.StructTag) *document.Annotation {
	own, _ := library.BuiltIn().Find(loadbalancer.Catalog)
	known, _ := own.Plain(loadbalancer.Prefix + tag.Get("key"))
	return known
}

// text returns one of the values that the field's annotation allows, or anything.
func (f *filler) text(path string, tag reflect.StructTag) string {
	if known := describe(tag); known != nil && known.Type.Type == annotation.Enum {
		last := len(known.Values) - 1
		if known.Values[last] == known.Default {
			last--
		}
		return f.choose(known.Values[last], known.Values[0]).(string)
	}
	return fmt.Sprintf("%s-%d", path, f.number)
}

func (f *filler) choose(original, other any) any {
	if f.original {
		return original
	}
	return other
}

// differences lists the paths of the fields whose values differ.
func differences(t *testing.T, want, got *loadbalancer.Desired) []string {
	t.Helper()
	if len(want.Listeners) != len(got.Listeners) {
		t.Fatalf("%d listeners, want %d", len(got.Listeners), len(want.Listeners))
	}
	values := map[string]any{}
	each(reflect.ValueOf(want), "", func(path string, v reflect.Value) { values[path] = v.Interface() })
	var all []string
	each(reflect.ValueOf(got), "", func(path string, v reflect.Value) {
		if !reflect.DeepEqual(values[path], v.Interface()) {
			all = append(all, path)
		}
	})
	return all
}

// each calls fn for every field of a struct and of the structs below it, with its path.
func each(v reflect.Value, path string, fn func(string, reflect.Value)) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		each(v.Elem(), path, fn)
	case isTree(v.Type()):
		for i := range v.NumField() {
			each(v.Field(i), join(path, v.Type().Field(i).Name), fn)
		}
	case v.Kind() == reflect.Slice && v.Len() > 0 && isTree(v.Type().Elem()):
		for i := range v.Len() {
			each(v.Index(i), fmt.Sprintf("%s[%d]", path, i), fn)
		}
	default:
		fn(path, v)
	}
}

// isTree reports whether a type has fields of its own to look at.
func isTree(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[netip.Prefix]()
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

var index = regexp.MustCompile(`\[\d+\]`)

// plain returns a path without indexes.
func plain(path string) string { return index.ReplaceAllString(path, "") }
