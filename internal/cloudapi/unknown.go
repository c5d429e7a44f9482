package cloudapi

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

// DecodeLoadBalancer decodes a load balancer with its tree, such as the object of a change, and keeps the members that
// this client does not know in Unknown.
func DecodeLoadBalancer(data []byte) (*cloudv1.LoadBalancer, error) {
	lb := &cloudv1.LoadBalancer{}
	if strict(data, lb) == nil {
		return lb, nil
	}
	*lb = cloudv1.LoadBalancer{}
	if err := json.Unmarshal(data, lb); err != nil {
		return nil, fmt.Errorf("decode load balancer: %w", err)
	}
	var err error
	lb.Unknown, err = unknown(data)
	return lb, err
}

// decode decodes the body of a response into out. Load balancers keep the members that this client does not know.
func decode(body []byte, out any) error {
	switch out := out.(type) {
	case *cloudv1.LoadBalancer:
		lb, err := DecodeLoadBalancer(body)
		if err == nil {
			*out = *lb
		}
		return err
	case *cloudv1.List[cloudv1.LoadBalancer]:
		return decodeList(body, out)
	}
	return json.Unmarshal(body, out)
}

func decodeList(body []byte, out *cloudv1.List[cloudv1.LoadBalancer]) error {
	if strict(body, out) == nil {
		return nil
	}
	*out = cloudv1.List[cloudv1.LoadBalancer]{}
	if err := json.Unmarshal(body, out); err != nil {
		return err
	}
	var raw struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return err
	}
	for i := range out.Items {
		var err error
		if out.Items[i].Unknown, err = unknown(raw.Items[i]); err != nil {
			return err
		}
	}
	return nil
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

// unknown returns the members of a load balancer's tree that have no field, with the identities of the list elements
// that contain them, or nil.
func unknown(data []byte) (json.RawMessage, error) {
	value, err := generic(data)
	if err != nil {
		return nil, err
	}
	rest := prune(value, tree)
	if rest == nil {
		return nil, nil
	}
	return json.Marshal(rest)
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

// prune returns what of a value has no field in t, or nil.
func prune(value any, t reflect.Type) any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := value.(type) {
	case map[string]any:
		if rest := pruneMembers(value, t); len(rest) > 0 {
			return rest
		}
	case []any:
		if rest := pruneElements(value, t); len(rest) > 0 {
			return rest
		}
	}
	return nil
}

func pruneMembers(object map[string]any, t reflect.Type) map[string]any {
	if t.Kind() != reflect.Struct {
		return nil
	}
	known, rest := members(t), map[string]any{}
	for name, value := range object {
		field, ok := known[name]
		if ok {
			value = prune(value, field)
		}
		if !ok || value != nil {
			rest[name] = value
		}
	}
	return rest
}

func pruneElements(list []any, t reflect.Type) []any {
	if t.Kind() != reflect.Slice || identities[t.Elem()] == nil {
		return nil
	}
	var all []any
	for _, element := range list {
		object, ok := element.(map[string]any)
		if !ok {
			continue
		}
		rest := pruneMembers(object, t.Elem())
		if len(rest) == 0 {
			continue
		}
		for _, name := range identities[t.Elem()] {
			rest[name] = object[name]
		}
		all = append(all, rest)
	}
	return all
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

// withUnknown returns the body of an update with the unknown members of the object that it replaces. What the update
// removes, such as a listener, takes its unknown members with it.
func withUnknown(spec cloudv1.LoadBalancerSpec, rest json.RawMessage) (json.RawMessage, error) {
	encoded, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	body, err := generic(encoded)
	if err != nil {
		return nil, err
	}
	more, err := generic(rest)
	if err != nil {
		return nil, err
	}
	merge(body, more, tree)
	return json.Marshal(body)
}

// merge adds to a value what prune kept of its former one.
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
		if !ok || t.Kind() != reflect.Slice {
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
