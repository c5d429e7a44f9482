{{- define "quaymaster.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels of a role's pods: (list $ "webhook") */}}
{{- define "quaymaster.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* The labels of an object or a pod: (list $ "webhook") or, with more labels, (list $ "webhook" labels) */}}
{{- define "quaymaster.labels" -}}
{{- $root := index . 0 -}}
{{- $own := include "quaymaster.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- range $more := append (slice . 2) $root.Values.commonLabels -}}
{{- $own = merge $own ($more | default dict) -}}
{{- end -}}
{{- toYaml $own -}}
{{- end -}}

{{/* The metadata of a role's account: (list $ "webhook" values) */}}
{{- define "quaymaster.accountMetadata" -}}
{{- $root := index . 0 -}}
name: {{ include "quaymaster.fullname" $root }}-{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "quaymaster.labels" (list $root (index . 1)) | nindent 2 }}
{{- with (index . 2).serviceAccount.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The metadata of a role's pods: (list $ "webhook" values "true if they use the cloud") */}}
{{- define "quaymaster.podMetadata" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
labels:
  {{- include "quaymaster.labels" (list $root (index . 1) $values.podLabels) | nindent 2 }}
{{- if or (index . 3) $values.podAnnotations }}
annotations:
  {{- if index . 3 }}
  # The cloud config is only read at startup, so a change must restart the pods.
  quaymaster.dev/cloud-config-checksum: {{ include "quaymaster.cloudConfigChecksum" $root }}
  {{- end }}
  {{- with $values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* How many pods of a role may be evicted at the same time: (list $ "webhook" values) */}}
{{- define "quaymaster.disruptionBudget" -}}
{{- $root := index . 0 -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "quaymaster.fullname" $root }}-{{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "quaymaster.labels" (list $root (index . 1)) | nindent 4 }}
spec:
  maxUnavailable: {{ (index . 2).podDisruptionBudget.maxUnavailable }}
  # Pods that are not ready must not block a drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "quaymaster.selectorLabels" . | nindent 6 }}
{{- end -}}

{{- define "quaymaster.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What all pods have: (list $ values) */}}
{{- define "quaymaster.podSpec" -}}
{{- $values := index . 1 -}}
enableServiceLinks: false
{{- with (index . 0).Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- range $field := list "priorityClassName" "nodeSelector" "tolerations" }}
{{- with get $values $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What all containers have: as the Pod Security level "restricted" requires, with a read-only root file system. */}}
{{- define "quaymaster.container" -}}
image: {{ include "quaymaster.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "quaymaster.cloudMounts" -}}
- {name: config, mountPath: /etc/quaymaster, readOnly: true}
{{- if not .Values.cloud.clientCertificate.replacesToken }}
- {name: token, mountPath: /var/run/secrets/quaymaster, readOnly: true}
{{- end }}
{{- if .Values.cloud.clientCertificate.secretName }}
- {name: client, mountPath: /var/run/secrets/quaymaster-client, readOnly: true}
{{- end }}
{{- end -}}

{{/* The volumes of these mounts: (list $ tokenSecret "optional if pods start without the Secrets") */}}
{{- define "quaymaster.cloudVolumes" -}}
{{- $root := index . 0 -}}
{{- $secret := index . 1 -}}
{{- $optional := index . 2 -}}
- name: config
  configMap:
    name: {{ include "quaymaster.fullname" $root }}-cloud
{{- if not $root.Values.cloud.clientCertificate.replacesToken }}
- name: token
  secret:
    secretName: {{ $secret.name | default (include "quaymaster.tokenSecret" $root) }}
    items:
      - {key: {{ $secret.key | default $root.Values.cloud.tokenSecret.key }}, path: token}
    {{- if $optional }}
    optional: true
    {{- end }}
{{- end }}
{{- with $root.Values.cloud.clientCertificate.secretName }}
- name: client
  secret:
    secretName: {{ . }}
    {{- if $optional }}
    optional: true
    {{- end }}
{{- end }}
{{- end -}}

{{/* The environment of a container, or empty. */}}
{{- define "quaymaster.env" -}}
{{- with include "quaymaster.variables" . -}}
env:
  {{- . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* The variables of that environment. */}}
{{- define "quaymaster.variables" -}}
{{- with .Values.apiServer.host -}}
- {name: KUBERNETES_SERVICE_HOST, value: {{ . | quote }}}
- {name: KUBERNETES_SERVICE_PORT, value: {{ $.Values.apiServer.port | quote }}}
{{ end }}
{{- with .Values.env }}
{{- toYaml . }}
{{- end -}}
{{- end -}}

{{/* Checksum of the configuration that is only read at startup. Certificates and token are read again. */}}
{{- define "quaymaster.cloudConfigChecksum" -}}
{{ include "quaymaster.cloudConfig" . | sha256sum }}
{{- end -}}

{{/* The given affinity; if empty, prefers a separate Node for each replica: (list $ "webhook" affinity) */}}
{{- define "quaymaster.affinity" -}}
affinity:
{{- if index . 2 }}
  {{- toYaml (index . 2) | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "quaymaster.selectorLabels" . | nindent 14 }}
{{- end }}
{{- end -}}

{{- define "quaymaster.tokenSecret" -}}
{{- .Values.cloud.tokenSecret.name | default (printf "%s-cloud-token" (include "quaymaster.fullname" .)) -}}
{{- end -}}

{{/* The lease of the controllers. Without a cloud, its name depends on the release, because several may run. */}}
{{- define "quaymaster.lease" -}}
{{- ternary .Values.cloudController.leaderElection.resourceName (printf "%s-policy-controller" (include "quaymaster.fullname" .)) .Values.cloudController.enabled -}}
{{- end -}}

{{- define "quaymaster.leaseNamespace" -}}
{{- ternary .Values.cloudController.leaderElection.resourceNamespace .Release.Namespace .Values.cloudController.enabled -}}
{{- end -}}

{{/* "true" if the chart creates pods for the webhooks, otherwise empty. */}}
{{- define "quaymaster.webhookPods" -}}
{{- if and .Values.webhook.enabled (not .Values.webhook.url) -}}
true
{{- end -}}
{{- end -}}

{{/* "true" if the webhooks use the cloud, otherwise empty. */}}
{{- define "quaymaster.webhookAsksCloud" -}}
{{- $enabled := toString .Values.webhook.cloud.enabled -}}
{{- if and .Values.webhook.enabled (or (eq $enabled "true") (and (eq $enabled "auto") .Values.cloudController.enabled)) -}}
true
{{- end -}}
{{- end -}}

{{/* "true" if a pod of the chart needs the cloud config, otherwise empty. */}}
{{- define "quaymaster.cloudIsUsed" -}}
{{- if .Values.cloudController.enabled -}}
true
{{- else if include "quaymaster.webhookPods" . -}}
{{- include "quaymaster.webhookAsksCloud" . -}}
{{- end -}}
{{- end -}}

{{- define "quaymaster.cloudConfig" -}}
clusterID: {{ .Values.cloud.clusterID | quote }}
endpoint: {{ .Values.cloud.endpoint | quote }}
{{- with .Values.cloud.otherEndpoints }}
otherEndpoints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if not .Values.cloud.clientCertificate.replacesToken }}
tokenFile: /var/run/secrets/quaymaster/token
{{- end }}
{{- if .Values.cloud.caBundle }}
caFile: /etc/quaymaster/ca.crt
{{- end }}
{{- if .Values.cloud.clientCertificate.secretName }}
clientCertFile: /var/run/secrets/quaymaster-client/tls.crt
clientKeyFile: /var/run/secrets/quaymaster-client/tls.key
{{- end }}
allowInsecureHTTP: {{ .Values.cloud.allowInsecureHTTP }}
quotaPercent: {{ .Values.cloud.quotaPercent }}
loadBalancerClass: {{ .Values.loadBalancerClass | quote }}
defaultClass: {{ .Values.defaultClass }}
network:
  {{- toYaml .Values.cloud.network | nindent 2 }}
ingressNodes:
  {{- toYaml .Values.cloud.ingressNodes | nindent 2 }}
kubeProxyHealthCheckPort: {{ .Values.cloud.kubeProxyHealthCheckPort }}
{{- end -}}

{{/* The value of the flag --catalogs: catalogs, and those of catalogFiles. */}}
{{- define "quaymaster.catalogs" -}}
{{- $names := .Values.catalogs -}}
{{- range $file, $_ := .Values.catalogFiles -}}
{{- $names = append $names (trimSuffix ".yaml" $file) -}}
{{- end -}}
{{- join "," (uniq $names) -}}
{{- end }}

{{/* The name of the ConfigMap with catalogFiles; empty if there are none. */}}
{{- define "quaymaster.catalogFiles" -}}
{{- if .Values.catalogFiles }}{{ include "quaymaster.fullname" . }}-catalogs{{ end -}}
{{- end }}

{{/* The value of the flag --unknown-keys of the webhooks. */}}
{{- define "quaymaster.unknownKeys" -}}
{{- $entries := list .Values.webhook.unknownKeys.default -}}
{{- range $catalog, $action := .Values.webhook.unknownKeys.of -}}
{{- $entries = append $entries (printf "%s=%s" $catalog $action) -}}
{{- end -}}
{{- join "," $entries -}}
{{- end }}

{{/* webhook.namespaceSelector as a flag; empty for all namespaces. */}}
{{- define "quaymaster.namespaceSelector" -}}
{{- $terms := list -}}
{{- range $key, $value := .Values.webhook.namespaceSelector.matchLabels -}}
{{- $terms = append $terms (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- range .Values.webhook.namespaceSelector.matchExpressions -}}
{{- if .values -}}
{{- $terms = append $terms (printf "%s %s (%s)" .key (lower .operator) (join "," .values)) -}}
{{- else -}}
{{- $terms = append $terms (printf "%s%s" (ternary "!" "" (eq .operator "DoesNotExist")) .key) -}}
{{- end -}}
{{- end -}}
{{- join "," $terms -}}
{{- end }}

{{/* The seconds of a duration such as 1m30s. */}}
{{- define "quaymaster.seconds" -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+[hms]" . -1 -}}
{{- $sum = add $sum (mul (trunc (sub (len .) 1 | int) . | int) (get (dict "h" 3600 "m" 60 "s" 1) (trunc -1 .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/*
Ingress of kubelets, if Nodes are given: (list $ "port"). A NetworkPolicy always admits the Node of a pod, so that most
network plugins need no rule.
*/}}
{{- define "quaymaster.networkPolicy.kubelets" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.networkPolicy.nodeCIDRs -}}
- ports: [{port: {{ index $ 1 }}}]
  from:
    {{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
{{- end -}}
{{- end -}}

{{/* Ingress of clients that read metrics: (list $ "port"). */}}
{{- define "quaymaster.networkPolicy.metrics" -}}
{{- $values := (index . 0).Values -}}
{{- $port := index . 1 -}}
{{- $anyPod := ternary (list (dict "namespaceSelector" dict)) list $values.monitoring.serviceMonitor.enabled -}}
{{- with $values.networkPolicy.metricsFrom | default $anyPod -}}
- ports: [{port: {{ $port }}}]
  from:
    {{- toYaml . | nindent 4 }}
{{- end -}}
{{- end }}
