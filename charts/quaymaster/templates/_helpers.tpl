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

{{- define "quaymaster.labels" -}}
{{ include "quaymaster.selectorLabels" . }}
{{- $root := index . 0 }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
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

{{/* What the Pod Security level "restricted" requires of a container, and a read-only root file system. */}}
{{- define "quaymaster.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "quaymaster.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The environment of a container, or empty. */}}
{{- define "quaymaster.env" -}}
{{- with .Values.apiServer.host -}}
env:
  - {name: KUBERNETES_SERVICE_HOST, value: {{ . | quote }}}
  - {name: KUBERNETES_SERVICE_PORT, value: {{ $.Values.apiServer.port | quote }}}
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

{{/* The lease of the controllers without a cloud; its name depends on the release, because several may run. */}}
{{- define "quaymaster.policyLease" -}}
{{ include "quaymaster.fullname" . }}-policy-controller
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
tokenFile: /var/run/secrets/quaymaster/token
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

{{/* The value of the flag --unknown-keys of the webhooks. */}}
{{- define "quaymaster.unknownKeys" -}}
{{- $entries := list .Values.webhook.unknownKeys.default -}}
{{- range $catalog, $action := .Values.webhook.unknownKeys.of -}}
{{- $entries = append $entries (printf "%s=%s" $catalog $action) -}}
{{- end -}}
{{- join "," $entries -}}
{{- end }}
