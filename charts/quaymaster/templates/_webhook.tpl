{{/* Where a webhook is called: (list $ "/path") */}}
{{- define "quaymaster.webhook.clientConfig" -}}
{{- $root := index . 0 -}}
{{- $path := index . 1 -}}
{{- if $root.Values.webhook.url -}}
url: {{ trimSuffix "/" $root.Values.webhook.url }}{{ $path }}
{{- else -}}
service:
  namespace: {{ $root.Release.Namespace }}
  name: {{ include "quaymaster.fullname" $root }}-webhook
  path: {{ $path }}
  port: 443
{{- end }}
{{- with $root.Values.webhook.caBundle }}
caBundle: {{ b64enc . }}
{{- end }}
{{- end -}}

{{/* What the webhooks for Services have in common. */}}
{{- define "quaymaster.webhook.services" -}}
rules:
  - apiGroups: [""]
    apiVersions: [v1]
    resources: [services]
    operations: [CREATE, UPDATE]
    scope: Namespaced
matchPolicy: Equivalent
sideEffects: None
admissionReviewVersions: [v1]
timeoutSeconds: {{ .Values.webhook.timeoutSeconds }}
{{- with .Values.webhook.namespaceSelector }}
namespaceSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
