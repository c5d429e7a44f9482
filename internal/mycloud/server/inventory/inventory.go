// Package inventory reads the YAML file with the initial objects of a reference cloud.
package inventory

import (
	"fmt"
	"os"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/strictyaml"
)

// Inventory holds the objects of a cloud. Its keys are those of the API.
type Inventory struct {
	Regions       []Region       `json:"regions"`
	Zones         []Zone         `json:"zones"`
	InstanceTypes []InstanceType `json:"instance_types"`
	Instances     []Instance     `json:"instances"`
	// AddressPools are the pools of load balancers' addresses.
	AddressPools []AddressPool `json:"address_pools"`
	RouteTables  []RouteTable  `json:"route_tables"`
	VolumeTypes  []VolumeType  `json:"volume_types"`
	Volumes      []Volume      `json:"volumes"`
}

// Region is a set of zones.
type Region struct {
	ID string `json:"id"`
}

// Zone is a failure domain.
type Zone struct {
	ID     string `json:"id"`
	Region string `json:"region"`
}

// InstanceType is a size of instances.
type InstanceType struct {
	ID        string `json:"id"`
	CPUs      int    `json:"cpus"`
	MemoryMiB int    `json:"memory_mib"`
}

// Instance is a virtual machine. Its region is that of its zone.
type Instance struct {
	ID       string            `json:"id"`
	Tags     map[string]string `json:"tags"`
	Hostname string            `json:"hostname"`
	// State defaults to running.
	State     cloudv1.InstanceState     `json:"state"`
	Type      string                    `json:"type"`
	Zone      string                    `json:"zone"`
	Addresses []cloudv1.InstanceAddress `json:"addresses"`
}

// AddressPool is a range of addresses for load balancers.
type AddressPool struct {
	// Scheme is public or internal.
	Scheme string `json:"scheme"`
	CIDR   string `json:"cidr"`
}

// RouteTable holds the routes of a network.
type RouteTable struct {
	ID    string `json:"id"`
	VPCID string `json:"vpc_id"`
}

// VolumeType limits the size of volumes of that type.
type VolumeType struct {
	ID              string `json:"id"`
	MaxSizeGiB      int    `json:"max_size_gib"`
	StepGiB         int    `json:"step_gib"`
	OnlineExpansion bool   `json:"online_expansion"`
}

// Volume is a block device, in one zone or in several of one region.
type Volume struct {
	ID         string            `json:"id"`
	Tags       map[string]string `json:"tags"`
	Zone       string            `json:"zone"`
	Zones      []string          `json:"zones"`
	Type       string            `json:"type"`
	SizeGiB    int               `json:"size_gib"`
	AttachedTo string            `json:"attached_to"`
}

// Load reads and validates a file. The error names the file and every problem.
func Load(path string) (*Inventory, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read inventory: %w", err)
	}
	inv, err := Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("inventory %s: %w", path, err)
	}
	return inv, nil
}

// Parse strictly decodes and validates an inventory. The error has every problem, separated by semicolons.
func Parse(raw []byte) (*Inventory, error) {
	var inv Inventory
	fields, err := strictyaml.Decode(raw, &inv)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, e := range fields {
		problems = append(problems, e)
	}
	for _, e := range inv.validate() {
		problems = append(problems, e)
	}
	if len(problems) > 0 {
		return nil, joined(problems)
	}
	return &inv, nil
}

// joined returns several problems as one error with a single line.
func joined(problems []error) error {
	err := problems[0]
	for _, p := range problems[1:] {
		err = fmt.Errorf("%w; %w", err, p)
	}
	return err
}
