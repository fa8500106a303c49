{{/* How fast a worker is scaled: down by one Pod in the time of a drain, so that few replicas end at once. */}}
{{- define "trustgraph-prompt.behavior" -}}
{{- $down := dict "stabilizationWindowSeconds" (max 300 .grace | min 3600) "policies" (list (dict "type" "Pods" "value" 1 "periodSeconds" (min .grace 1800))) -}}
{{- mergeOverwrite (dict "scaleDown" $down) (deepCopy .scaling.behavior) | toYaml -}}
{{- end -}}

{{/* The admin URL for KEDA, which resolves the name of a Service in its own namespace; of: url, namespace. */}}
{{- define "trustgraph-prompt.kedaAdminUrl" -}}
{{- $url := .url | trimSuffix "/" -}}
{{- $host := (urlParse $url).hostname -}}
{{- if or (contains "." $host) (contains ":" $host) -}}
{{- $url -}}
{{- else -}}
{{- $url | replace (printf "//%s" $host) (printf "//%s.%s" $host .namespace) -}}
{{- end -}}
{{- end -}}

{{/* How KEDA uses the credentials of a worker's TriggerAuthentication. Its releases differ in how they spell endpointParams. */}}
{{- define "trustgraph-prompt.kedaAuth" -}}
{{- $auth := .pulsar.auth -}}
{{- if ne $auth.type "none" -}}
authModes: {{ get (dict "token" "bearer" "tls" "tls" "oauth2" "oauth") $auth.type }}
{{- if eq $auth.type "oauth2" }}
oauthTokenURI: {{ $auth.oauth2.tokenUrl | quote }}
{{- with $auth.oauth2.scope }}
scope: {{ . | quote }}
{{- end }}
{{- with $auth.oauth2.audience }}
endpointParams: {{ printf "audience=%s" (urlquery .) | quote }}
EndpointParams: {{ printf "audience=%s" (urlquery .) | quote }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}
