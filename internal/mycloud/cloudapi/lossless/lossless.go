// Package lossless keeps the members of load balancers that this version of the client does not know: what newer clients
// have set outlives an update of the whole tree.
package lossless

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// LoadBalancer decodes a load balancer with its tree, such as the object of a change. If it has members that this
// client does not know, Unknown keeps data.
func LoadBalancer(data []byte) (*cloudv1.LoadBalancer, error) {
	lb := &cloudv1.LoadBalancer{}
	if strict(data, lb) == nil {
		return lb, nil
	}
	*lb = cloudv1.LoadBalancer{}
	if err := json.Unmarshal(data, lb); err != nil {
		return nil, fmt.Errorf("decode load balancer: %w", err)
	}
	lb.Unknown = data
	return lb, nil
}

// Partial is LoadBalancer for callers that must know that a load balancer exists, even if this client cannot decode it: then
// Undecodable says why, and only what identifies it is set, as far as it can be decoded. An object without id is an error.
func Partial(data []byte) (*cloudv1.LoadBalancer, error) {
	lb, err := LoadBalancer(data)
	if err == nil {
		return lb, nil
	}
	lb = &cloudv1.LoadBalancer{Undecodable: err.Error()}
	members := map[string]json.RawMessage{}
	_ = json.Unmarshal(data, &members)
	for name, field := range map[string]any{"id": &lb.ID, "name": &lb.Name, "tags": &lb.Tags, "revision": &lb.Revision} {
		_ = json.Unmarshal(members[name], field)
	}
	if lb.ID == "" {
		return nil, err
	}
	return lb, nil
}

// Decode decodes the body of a response into out. A load balancer keeps the members that this client does not know.
func Decode(body []byte, out any) error {
	one, ok := out.(*cloudv1.LoadBalancer)
	if !ok {
		return json.Unmarshal(body, out)
	}
	lb, err := LoadBalancer(body)
	if err == nil {
		*one = *lb
	}
	return err
}

// strict decodes data and fails if it has members without a field: usually it has none, and one pass is enough.
func strict(data []byte, out any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(out); err != nil {
		return err
	}
	if decoder.More() {
		return errors.New("data after the value")
	}
	return nil
}

// tree is the type whose members are known.
var tree = reflect.TypeFor[cloudv1.LoadBalancer]()

// identities has the members that identify the elements of lists: an element may move, and others may be added.
var identities = map[reflect.Type][]string{
	reflect.TypeFor[cloudv1.Listener](): {"key"},
	reflect.TypeFor[cloudv1.Pool]():     {"key", "family"},
	reflect.TypeFor[cloudv1.Member]():   {"key"},
	reflect.TypeFor[cloudv1.VIP]():      {"family"},
}

// generic decodes a value without loss: numbers keep their digits.
func generic(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return value, nil
}

// members returns the types of a struct's fields by their names in JSON.
func members(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			all[name] = field.Type
		}
	}
	return all
}

// Merge returns the body of an update with the unknown members of the object that it replaces, as read. What the update
// removes, such as a listener, takes its unknown members with it.
func Merge(spec cloudv1.LoadBalancerSpec, read json.RawMessage) (json.RawMessage, error) {
	encoded, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	body, err := generic(encoded)
	if err != nil {
		return nil, err
	}
	more, err := generic(read)
	if err != nil {
		return nil, err
	}
	merge(body, more, tree)
	return json.Marshal(body)
}

// merge adds to a value the members of its former one that have no field in t.
func merge(value, rest any, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := value.(type) {
	case map[string]any:
		rest, ok := rest.(map[string]any)
		if !ok || t.Kind() != reflect.Struct {
			return
		}
		known := members(t)
		for name, more := range rest {
			field, ok := known[name]
			if !ok {
				value[name] = more
			} else {
				merge(value[name], more, field)
			}
		}
	case []any:
		rest, ok := rest.([]any)
		if !ok || t.Kind() != reflect.Slice || identities[t.Elem()] == nil {
			return
		}
		for _, element := range value {
			i := slices.IndexFunc(rest, func(former any) bool { return identical(element, former, t.Elem()) })
			if i >= 0 {
				merge(element, rest[i], t.Elem())
			}
		}
	}
}

func identical(a, b any, t reflect.Type) bool {
	one, _ := a.(map[string]any)
	other, _ := b.(map[string]any)
	for _, name := range identities[t] {
		if one[name] == nil || one[name] != other[name] {
			return false
		}
	}
	return one != nil && other != nil
}
