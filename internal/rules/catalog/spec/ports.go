package spec

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// fewPorts is the number of ports up to which a search is cheaper than an index.
const fewPorts = 8

// Ports finds the ports of a Service by number and name. It remembers what was computed, so it must not be used
// concurrently.
type Ports struct {
	all       []corev1.ServicePort
	byNumber  map[int32][]int
	byName    map[string][]int
	described string
}

// PortsOf returns the ports of a Service, which must not change.
func PortsOf(svc *corev1.Service) Ports { return Ports{all: svc.Spec.Ports} }

// Resolve appends the indices of the ports that the suffix of a key refers to: digits are a port number, anything else
// is a port name.
func (p *Ports) Resolve(suffix string, found []int) (ports []int, named bool) {
	if named = suffix == "" || strings.Trim(suffix, "0123456789") != ""; named {
		return p.named(suffix, found), true
	}
	number, err := strconv.ParseInt(suffix, 10, 32)
	if err != nil || suffix[0] == '0' {
		return nil, false
	}
	return p.numbered(int32(number), found), false
}

func (p *Ports) named(name string, found []int) []int {
	if name == "" || p.index() {
		return p.byName[name]
	}
	for i := range p.all {
		if p.all[i].Name == name {
			found = append(found, i)
		}
	}
	return found
}

func (p *Ports) numbered(number int32, found []int) []int {
	if p.index() {
		return p.byNumber[number]
	}
	for i := range p.all {
		if p.all[i].Port == number {
			found = append(found, i)
		}
	}
	return found
}

// index indexes the ports if there are many, and reports whether it did.
func (p *Ports) index() bool {
	if len(p.all) <= fewPorts || p.byNumber != nil {
		return p.byNumber != nil
	}
	p.byNumber, p.byName = map[int32][]int{}, map[string][]int{}
	for i, port := range p.all {
		p.byNumber[port.Port] = append(p.byNumber[port.Port], i)
		if port.Name != "" {
			p.byName[port.Name] = append(p.byName[port.Name], i)
		}
	}
	return true
}

// String lists the numbers and names that a suffix may be.
func (p *Ports) String() string {
	if p.described == "" {
		p.described = p.describe()
	}
	return p.described
}

func (p *Ports) describe() string {
	const most = 10
	var names []string
	seen := map[string]bool{}
	for i, port := range p.all {
		if i == most {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(p.all)-most)
		}
		text := Number(port)
		if port.Name != "" {
			text += " (" + port.Name + ")"
		}
		if !seen[text] {
			names = append(names, text)
			seen[text] = true
		}
	}
	return strings.Join(names, ", ")
}
