package app

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// resource is a kind of objects that get shows.
type resource struct {
	// names are the names of the kind, the usual one first.
	names   []string
	columns []string
	list    func(ctx context.Context, c *cloudapi.Client, table string, o cloudapi.ListOptions) (found, error)
}

// found is the content of a list, as table rows and as objects.
type found struct {
	rows [][]string
	// all is the list, first is its first object.
	all, first any
}

func findResource(name string) (resource, bool) {
	for _, r := range resources() {
		if slices.Contains(r.names, name) {
			return r, true
		}
	}
	return resource{}, false
}

// listFunc is a method of the client.
type listFunc[T any] func(c *cloudapi.Client, ctx context.Context, o cloudapi.ListOptions) (*cloudv1.List[T], error)

// tableFunc lists the objects of one table or, if it has no name, of all tables.
type tableFunc[T any] func(
	ctx context.Context, c *cloudapi.Client, table string, o cloudapi.ListOptions,
) (*cloudv1.List[T], error)

func newResource[T any](names, columns string, list listFunc[T], row func(*T) []string) resource {
	all := func(ctx context.Context, c *cloudapi.Client, _ string, o cloudapi.ListOptions) (*cloudv1.List[T], error) {
		return list(c, ctx, o)
	}
	return newTableResource(names, columns, all, row)
}

func newTableResource[T any](names, columns string, list tableFunc[T], row func(*T) []string) resource {
	return resource{
		names: strings.Fields(names), columns: strings.Fields(columns),
		list: func(ctx context.Context, c *cloudapi.Client, table string, o cloudapi.ListOptions) (found, error) {
			l, err := list(ctx, c, table, o)
			if err != nil {
				return found{}, err
			}
			f := found{all: l}
			for i := range l.Items {
				f.rows = append(f.rows, row(&l.Items[i]))
			}
			if len(l.Items) > 0 {
				f.first = l.Items[0]
			}
			return f, nil
		},
	}
}

// resources returns all kinds.
func resources() []resource {
	return []resource{
		newResource("instances instance", "ID HOSTNAME STATE TYPE ZONE ADDRESSES",
			(*cloudapi.Client).ListInstances, instanceRow),
		newResource("load-balancers load-balancer lb", "ID NAME STATE OPERATING ADDRESSES LISTENERS REVISION",
			(*cloudapi.Client).ListLoadBalancers, loadBalancerRow),
		newResource("addresses address", "ADDRESS STATE LOAD-BALANCER SINCE HELD-BY", (*cloudapi.Client).ListAddresses, addressRow),
		newResource("node-groups node-group ng", "ID NAME MEMBERS REVISION", (*cloudapi.Client).ListNodeGroups, nodeGroupRow),
		newTableResource("routes route", "ID TABLE DESTINATION NEXT-HOP STATE", listRoutes, routeRow),
		newResource("route-tables route-table", "ID NAME VPC", (*cloudapi.Client).ListRouteTables,
			func(t *cloudv1.RouteTable) []string { return []string{t.ID, t.Name, t.VPCID} }),
		newResource("volumes volume", "ID TYPE SIZE STATE ZONES ATTACHED-TO", (*cloudapi.Client).ListVolumes, volumeRow),
		newResource("volume-types volume-type", "ID MAX-SIZE STEP ONLINE-EXPANSION", (*cloudapi.Client).VolumeTypes,
			func(t *cloudv1.VolumeType) []string {
				return []string{t.ID, gib(t.MaxSizeGiB), gib(t.StepGiB), strconv.FormatBool(t.OnlineExpansion)}
			}),
		newResource("zones zone", "ID REGION STATE", (*cloudapi.Client).Zones,
			func(z *cloudv1.Zone) []string { return []string{z.ID, z.Region, z.State} }),
		newResource("regions region", "ID STATE", (*cloudapi.Client).Regions,
			func(r *cloudv1.Region) []string { return []string{r.ID, r.State} }),
		newResource("instance-types instance-type", "ID CPUS MEMORY-MIB", (*cloudapi.Client).InstanceTypes,
			func(t *cloudv1.InstanceType) []string {
				return []string{t.ID, strconv.Itoa(t.CPUs), strconv.Itoa(t.MemoryMiB)}
			}),
		newResource("edges edge", "ID NAME STATE ZONE ADDRESSES APPLIED HEARTBEAT FAULTS",
			(*cloudapi.Client).ListEdges, edgeRow),
		newResource("certificates certificate", "ID NAME NOT-AFTER DNS-NAMES REVISION",
			(*cloudapi.Client).ListCertificates, certificateRow),
		newResource("tokens token", "ID NAME ROLE EDGE EXPIRES LAST-USED", (*cloudapi.Client).ListTokens, tokenRow),
		newResource("jobs job", "ID NAME TARGET STATE PROGRESS", (*cloudapi.Client).ListJobs,
			func(j *cloudv1.Job) []string {
				return []string{j.ID, j.Name, j.Target.ID, string(j.State), strconv.Itoa(j.Progress) + "%"}
			}),
	}
}

func instanceRow(i *cloudv1.Instance) []string {
	var addresses []string
	for _, a := range i.Addresses {
		addresses = append(addresses, a.Address)
	}
	return []string{i.ID, i.Hostname, string(i.State), i.Type, i.Zone, strings.Join(addresses, ",")}
}

func loadBalancerRow(lb *cloudv1.LoadBalancer) []string {
	var addresses, listeners []string
	for _, v := range lb.VIPs {
		addresses = append(addresses, v.Address)
	}
	for _, l := range lb.Listeners {
		s := l.Key
		if l.MaxQPS > 0 {
			s += fmt.Sprintf("(max-qps=%d)", l.MaxQPS)
		}
		listeners = append(listeners, s)
	}
	return []string{
		lb.ID, lb.Name, string(lb.ProvisioningState), lb.OperatingState,
		strings.Join(addresses, ","), strings.Join(listeners, ","), lb.Revision,
	}
}

func addressRow(a *cloudv1.Address) []string {
	return []string{a.ID, a.State, a.LoadBalancerID, shownTime(a.ReservedAt), strings.Join(a.HeldBy, ",")}
}

func edgeRow(e *cloudv1.Edge) []string {
	return []string{
		e.ID, e.Name, e.State, e.Zone, strings.Join(e.Addresses, ","), e.AppliedRevision, shownTime(e.HeartbeatAt),
		strconv.Itoa(len(e.Faults)),
	}
}

func certificateRow(c *cloudv1.Certificate) []string {
	return []string{c.ID, c.Name, c.NotAfter.UTC().Format(time.RFC3339), strings.Join(c.DNSNames, ","), c.Revision}
}

func tokenRow(t *cloudv1.Token) []string {
	return []string{t.ID, t.Name, t.Role, t.Edge, shownTime(t.ExpiresAt), shownTime(t.LastUsedAt)}
}

func shownTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func nodeGroupRow(g *cloudv1.NodeGroup) []string {
	var members []string
	for _, m := range g.Members {
		members = append(members, m.Key)
	}
	return []string{g.ID, g.Name, strings.Join(members, ","), g.Revision}
}

func routeRow(r *cloudv1.Route) []string {
	return []string{r.ID, r.RouteTableID, r.Destination, r.NextHop.InstanceID + r.NextHop.Address, r.State}
}

func volumeRow(v *cloudv1.Volume) []string {
	return []string{v.ID, v.Type, gib(v.SizeGiB), v.State, v.Zone + strings.Join(v.Zones, ","), v.AttachedTo}
}

func gib(n int) string { return strconv.Itoa(n) + "GiB" }

// listRoutes reads the routes of one table, or of all tables.
func listRoutes(
	ctx context.Context, c *cloudapi.Client, table string, o cloudapi.ListOptions,
) (*cloudv1.List[cloudv1.Route], error) {
	if table != "" {
		return c.ListRoutes(ctx, table, o)
	}
	tables, err := c.ListRouteTables(ctx, cloudapi.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := &cloudv1.List[cloudv1.Route]{Items: []cloudv1.Route{}, Complete: true}
	for _, t := range tables.Items {
		l, err := c.ListRoutes(ctx, t.ID, o)
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, l.Items...)
		all.Revision = l.Revision
	}
	return all, nil
}
