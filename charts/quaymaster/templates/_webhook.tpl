{{/* How API servers reach a webhook: (list $ "/path") */}}
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

{{/*
Which requests a webhook is called for, and how: (list $ "group/version" "resources" "Scope" "OPERATION"...). Users can
select the namespaces in which Services and claims are checked; volumes and policies always are.
*/}}
{{- define "quaymaster.webhook.about" -}}
{{- $root := index . 0 -}}
{{- $version := splitList "/" (index . 1) -}}
rules:
  - apiGroups: [{{ first $version | quote }}]
    apiVersions: [{{ last $version }}]
    resources: [{{ index . 2 }}]
    operations: [{{ slice . 4 | join ", " }}]
    scope: {{ index . 3 }}
matchPolicy: Equivalent
sideEffects: None
admissionReviewVersions: [v1]
timeoutSeconds: {{ $root.Values.webhook.timeoutSeconds }}
{{- if has (first (splitList "," (index . 2))) (list "services" "persistentvolumeclaims") }}
{{- with $root.Values.webhook.namespaceSelector }}
namespaceSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Finalizers of an object that is being deleted can always be removed. */}}
{{- define "quaymaster.webhook.notBeingDeleted" -}}
!has(object.metadata.deletionTimestamp)
{{- end -}}

{{/* True if a claim requests more than before. */}}
{{- define "quaymaster.webhook.grows" -}}
quantity(object.spec.?resources.?requests.?storage.orValue('0')).isGreaterThan(quantity(oldObject.spec.?resources.?requests.?storage.orValue('0')))
{{- end -}}
