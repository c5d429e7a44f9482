package registration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/failure"
)

// nameMax is the longest id or key of a heartbeat.
const nameMax = 255

// heartbeat is a heartbeat that takes no more memory than its limits allow, whatever the request has: an empty element
// takes three bytes of a request and a hundred of memory.
type heartbeat struct{ cloudv1.Heartbeat }

// Schema implements huma.SchemaProvider.
func (heartbeat) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[cloudv1.Heartbeat](), true, "")
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *heartbeat) UnmarshalJSON(raw []byte) error {
	var parts struct {
		AppliedRevision string          `json:"applied_revision"`
		Faults          json.RawMessage `json:"faults"`
		Health          json.RawMessage `json:"health"`
		HealthReset     bool            `json:"health_reset"`
		Counters        json.RawMessage `json:"counters"`
		Announced       json.RawMessage `json:"announced"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	h.AppliedRevision, h.HealthReset = parts.AppliedRevision, parts.HealthReset
	faults, err := atMost[cloudv1.EdgeFault](parts.Faults, "faults", cloudv1.MaxFaults)
	if err != nil {
		return err
	}
	if faults != nil {
		h.Faults = *faults
	}
	if h.Health, err = atMost[cloudv1.MemberHealth](parts.Health, "health", cloudv1.MaxHealth); err != nil {
		return err
	}
	if h.Counters, err = atMost[cloudv1.ListenerCounter](parts.Counters, "counters", cloudv1.MaxCounters); err != nil {
		return err
	}
	h.Announced, err = atMost[string](parts.Announced, "announced", cloudv1.MaxAnnounced)
	return err
}

// atMost decodes a list, or nil if there is none.
func atMost[T any](raw json.RawMessage, name string, limit int) (*[]T, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return nil, fmt.Errorf("%s must be a list", name)
	}
	list := []T{}
	for decoder.More() {
		if len(list) == limit {
			return nil, fmt.Errorf("%s must have at most %d elements", name, limit)
		}
		var element T
		if err := decoder.Decode(&element); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, element)
	}
	return &list, nil
}

// appliedRevision matches what an edge may say that it has applied.
var appliedRevision = regexp.MustCompile(`^([0-9]{1,20}(\.[0-9a-f]{8})?)?$`)

// Resolve validates what the library does not.
func (p *heartbeatParams) Resolve(huma.Context) []error {
	h := &p.Body
	var problems []cloudv1.ProblemField
	check := func(ok bool, pointer, format string, args ...any) {
		if !ok && len(problems) < problemsMax {
			problems = append(problems, cloudv1.ProblemField{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
		}
	}
	at := func(list string, i int, field string) string { return fmt.Sprintf("/%s/%d/%s", list, i, field) }
	names := func(list string, i int, values ...string) {
		if slices.ContainsFunc(values, func(v string) bool { return len(v) > nameMax }) {
			check(false, fmt.Sprintf("/%s/%d", list, i), "ids and keys must have at most %d bytes", nameMax)
		}
	}
	family := func(list string, i int, value string) {
		if value != cloudv1.FamilyIPv4 && value != cloudv1.FamilyIPv6 {
			check(false, at(list, i, "family"), "must be ipv4 or ipv6")
		}
	}
	check(appliedRevision.MatchString(h.AppliedRevision), "/applied_revision", "must be a revision of the cloud, or empty")
	for i, f := range h.Faults {
		names("faults", i, f.LoadBalancerID, f.ListenerKey)
	}
	if h.Health != nil {
		for i, m := range *h.Health {
			names("health", i, m.LoadBalancerID, m.PoolKey, m.MemberKey)
			family("health", i, m.Family)
			if !slices.Contains(memberStates, m.State) {
				check(false, at("health", i, "state"), "must be one of %v", memberStates)
			}
		}
	}
	if h.Counters != nil {
		for i, c := range *h.Counters {
			names("counters", i, c.LoadBalancerID, c.ListenerKey)
			family("counters", i, c.Family)
		}
	}
	if h.Announced != nil {
		for i, address := range *h.Announced {
			parsed, err := netip.ParseAddr(address)
			check(err == nil && parsed.Zone() == "", fmt.Sprintf("/announced/%d", i), "must be an IP address without a zone")
		}
	}
	return failure.Fields(problems)
}

// memberStates are the states of a member that an edge reports.
var memberStates = []string{
	cloudv1.OperatingOnline, cloudv1.OperatingOffline, cloudv1.OperatingDraining, cloudv1.OperatingUnknown,
}

// problemsMax limits how many fields of a heartbeat are reported as invalid.
const problemsMax = 10
