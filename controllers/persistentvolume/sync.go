package persistentvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/volume"
)

// sync adds the missing zones to a PersistentVolume.
func (c *Controller) sync(ctx context.Context, name string) error {
	pv, err := c.volumes.Lister().Get(name)
	if apierrors.IsNotFound(err) || err == nil && !incomplete(pv) {
		c.reports.reported.Delete(name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("get persistent volume: %w", err)
	}
	change, err := c.change(ctx, pv)
	if err != nil || finding.Deny(change.Findings) {
		return err
	}
	if err := c.patch(ctx, pv, change); err != nil {
		return err
	}
	c.reports.reported.Delete(name)
	c.reports.overwritten(pv, change.Findings)
	return nil
}

// change determines what the PersistentVolume lacks. Errors among its findings concern the PersistentVolume itself:
// only a change to it can solve them, and an Event has reported them.
func (c *Controller) change(ctx context.Context, pv *corev1.PersistentVolume) (volume.ZoneChange, error) {
	if labels, ok := volume.Trusted(pv); ok {
		change := volume.ApplyZones(pv, labels)
		if finding.Deny(change.Findings) {
			c.reports.problem(pv, reasonInvalid, change.Findings)
		}
		return change, nil
	}
	labels, err := c.labeler.GetLabelsForVolume(ctx, pv)
	if errors.Is(err, cloudprovider.DiskNotFound) {
		c.reports.problem(pv, reasonNotFound, []finding.Finding{volume.NotFound(pv)})
	}
	if err != nil {
		return volume.ZoneChange{}, fmt.Errorf("ask the cloud for zones: %w", err)
	}
	change := volume.ApplyZones(pv, labels)
	if summary := finding.Summary(change.Findings); summary != "" {
		// The labels come from the cloud, and so does the problem.
		return volume.ZoneChange{}, fmt.Errorf("ask the cloud for zones: %s", summary)
	}
	return change, nil
}

// patch writes the change, provided that the PersistentVolume is still at the version that was read: it never
// overwrites what others have written since.
func (c *Controller) patch(ctx context.Context, pv *corev1.PersistentVolume, change volume.ZoneChange) error {
	metadata := map[string]any{"uid": pv.UID, "resourceVersion": pv.ResourceVersion}
	body := map[string]any{"metadata": metadata}
	if len(change.Labels) > 0 {
		metadata["labels"] = change.Labels
	}
	// The API server allows the affinity to be set once and never to be changed.
	if affinity := change.Affinity(); affinity != nil && pv.Spec.NodeAffinity == nil {
		body["spec"] = map[string]any{"nodeAffinity": affinity}
	} else if len(change.Labels) == 0 {
		return nil
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = c.client.PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, raw, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch persistent volume: %w", err)
	}
	klog.FromContext(ctx).Info("Completed the zones of a persistent volume", "labels", change.Labels)
	return nil
}

// Reasons of Events.
const (
	reasonNotFound    = "VolumeNotFound"
	reasonInvalid     = "InvalidZoneLabel"
	reasonOverwritten = "ZoneLabelOverwritten"
)

// reports records one Event per problem of a PersistentVolume, however often it is retried.
type reports struct {
	recorder record.EventRecorder

	// reported is the last problem of each PersistentVolume, by name.
	reported sync.Map
}

type report struct {
	uid    types.UID
	reason string
}

// problem reports the errors among the findings unless they have been reported.
func (r *reports) problem(pv *corev1.PersistentVolume, reason string, findings []finding.Finding) {
	current := report{uid: pv.UID, reason: reason}
	if before, _ := r.reported.Swap(pv.Name, current); before != current {
		r.recorder.Event(pv, corev1.EventTypeWarning, reason, finding.Summary(findings))
	}
}

// overwritten reports the warnings among the findings of a write, which happens only once.
func (r *reports) overwritten(pv *corev1.PersistentVolume, findings []finding.Finding) {
	if warnings := finding.Warnings(findings); len(warnings) > 0 {
		r.recorder.Event(pv, corev1.EventTypeWarning, reasonOverwritten, strings.Join(warnings, "\n"))
	}
}
