{{/*
The one Pod of this chart: of workers, hooks and tests. Of:
  root, worker       whose values count
  role               worker, hook or test
  name               of the container
  command, args      of it; the image's own command without
  access             env, volumeMounts and volumes (below)
  mounts, volumes    further ones
*/}}
{{- define "trustgraph-prompt.pod" -}}
{{- $values := .root.Values -}}
{{- $worker := .worker -}}
{{- $serves := eq .role "worker" -}}
serviceAccountName: {{ .serviceAccountName | default (include "trustgraph-prompt.serviceAccountName" .root) | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $worker.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $worker.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $worker.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $serves }}
terminationGracePeriodSeconds: {{ $worker.grace }}
{{- with $worker.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $worker.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $worker.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- $selector := include "trustgraph-prompt.selector" (dict "root" $.root "component" "worker" "worker" $worker.name) | fromYaml }}
  {{- range . }}
  {{- list (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $selector))) | toYaml | nindent 2 }}
  {{- end }}
{{- end }}
{{- with $worker.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- else }}
restartPolicy: Never
{{- end }}
containers:
  - name: {{ .name }}
    image: {{ include "trustgraph-prompt.image" .root | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    {{- with .command }}
    command:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    args:
      {{- toYaml .args | nindent 6 }}
    {{- $env := $worker.extraEnv }}
    {{- $given := dict }}
    {{- range $env }}{{ $_ := set $given .name true }}{{ end }}
    {{- range .access.env | default list | reverse }}
    {{- if not (hasKey $given .name) }}{{ $env = prepend $env . }}{{ end }}
    {{- end }}
    {{- with $env }}
    env:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $worker.extraEnvFrom }}
    envFrom:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- if $serves }}
    ports:
      - name: http
        containerPort: 8080
    startupProbe:
      httpGet: {path: /livez, port: http}
      {{- toYaml $worker.probes.startup | nindent 6 }}
    livenessProbe:
      httpGet: {path: /livez, port: http}
      {{- toYaml $worker.probes.liveness | nindent 6 }}
    readinessProbe:
      httpGet: {path: /readyz, port: http}
      {{- toYaml $worker.probes.readiness | nindent 6 }}
    {{- with $worker.lifecycle }}
    lifecycle:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- end }}
    {{- with $serves | ternary $worker.resources $values.hooks.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $worker.securityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    terminationMessagePolicy: FallbackToLogsOnError
    volumeMounts:
      - name: tmp
        mountPath: /tmp
      {{- with concat (.mounts | default list) (.access.volumeMounts | default list) $worker.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
  {{- if $serves }}
  {{- with $worker.extraContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- end }}
volumes:
  - name: tmp
    emptyDir: {}
  {{- with concat (.volumes | default list) (.access.volumes | default list) $worker.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* How a Pod reaches Pulsar as its worker does: env, volumeMounts and volumes. Files, so that credentials can change. */}}
{{- define "trustgraph-prompt.pulsarAccess" -}}
{{- $folder := "/etc/trustgraph-prompt" -}}
{{- $auth := .pulsar.auth -}}
{{- $tls := .pulsar.tls -}}
{{- $keys := get (dict "none" list "token" (list $auth.tokenKey) "tls" (list $auth.certificateKey $auth.privateKeyKey) "oauth2" (list $auth.oauth2.credentialsKey)) $auth.type -}}
env:
  - name: TRUSTGRAPH_PROMPT_BROKER
    value: {{ .pulsar.url | quote }}
  {{- with .pulsar.adminUrl }}
  - name: TRUSTGRAPH_PROMPT_ADMIN_URL
    value: {{ . | quote }}
  {{- end }}
  - name: TRUSTGRAPH_PROMPT_CONFIG_TOPIC
    value: {{ .pulsar.configTopic | quote }}
  {{- if eq $auth.type "token" }}
  - name: PULSAR_TOKEN_FILE
    value: {{ $folder }}/pulsar/{{ $auth.tokenKey }}
  {{- else if eq $auth.type "tls" }}
  - name: PULSAR_TLS_CERTIFICATE_FILE
    value: {{ $folder }}/pulsar/{{ $auth.certificateKey }}
  - name: PULSAR_TLS_KEY_FILE
    value: {{ $folder }}/pulsar/{{ $auth.privateKeyKey }}
  {{- else if eq $auth.type "oauth2" }}
  - name: PULSAR_OAUTH2_ISSUER_URL
    value: {{ $auth.oauth2.issuerUrl | quote }}
  - name: PULSAR_OAUTH2_CREDENTIALS_FILE
    value: {{ $folder }}/pulsar/{{ $auth.oauth2.credentialsKey }}
  {{- with $auth.oauth2.audience }}
  - name: PULSAR_OAUTH2_AUDIENCE
    value: {{ . | quote }}
  {{- end }}
  {{- with $auth.oauth2.scope }}
  - name: PULSAR_OAUTH2_SCOPE
    value: {{ . | quote }}
  {{- end }}
  {{- end }}
  {{- if or $tls.caSecret $tls.caConfigMap }}
  - name: PULSAR_TLS_TRUST_CERTS_FILE
    value: {{ $folder }}/pulsar-ca/{{ $tls.key }}
  {{- end }}
volumeMounts:
  {{- if $keys }}
  - {name: pulsar, mountPath: {{ $folder }}/pulsar, readOnly: true}
  {{- end }}
  {{- if or $tls.caSecret $tls.caConfigMap }}
  - {name: pulsar-ca, mountPath: {{ $folder }}/pulsar-ca, readOnly: true}
  {{- end }}
volumes:
  {{- if $keys }}
  - name: pulsar
    secret:
      secretName: {{ $auth.existingSecret | quote }}
      items:
        {{- range $keys }}
        - {key: {{ . | quote }}, path: {{ . | quote }}}
        {{- end }}
  {{- end }}
  {{- include "trustgraph-prompt.fileVolume" (dict "name" "pulsar-ca" "secret" $tls.caSecret "configMap" $tls.caConfigMap "key" $tls.key) | nindent 2 }}
{{- end -}}

{{/* How a worker reaches all else: its provider, its cache, its collector. */}}
{{- define "trustgraph-prompt.providerAccess" -}}
{{- $folder := "/etc/trustgraph-prompt" -}}
{{- $provider := .provider -}}
{{- $proxy := $provider.proxy -}}
{{- $ca := $provider.caBundle -}}
{{- $key := $provider.apiKey -}}
{{- $variables := dict "TRUSTGRAPH_PROMPT_BASE_URL" $provider.baseUrl "TRUSTGRAPH_PROMPT_MODEL" $provider.model "TRUSTGRAPH_PROMPT_PREFILL" $provider.prefill "TRUSTGRAPH_PROMPT_CACHE" (empty .cache.existingSecret | ternary .cache.url "") "HTTP_PROXY" $proxy.http "HTTPS_PROXY" $proxy.https "OTEL_EXPORTER_OTLP_ENDPOINT" .tracing.endpoint -}}
{{- if hasKey $provider "nativeSchema" }}{{ $_ := set $variables "TRUSTGRAPH_PROMPT_NATIVE_SCHEMA" (toString $provider.nativeSchema) }}{{ end -}}
{{- $direct := without (list $proxy.noProxy (urlParse .tracing.endpoint).hostname) "" | join "," -}}
{{- if or $proxy.http $proxy.https }}{{ $_ := set $variables "NO_PROXY" $direct }}{{ end -}}
{{- if .tracing.endpoint }}{{ $_ := set $variables "OTEL_SERVICE_NAME" .fullname }}{{ end -}}
{{- if or $ca.configMap $ca.secret }}{{ $_ := set $variables "SSL_CERT_FILE" (printf "%s/provider-ca/%s" $folder $ca.key) }}{{ end -}}
{{- if $key.existingSecret }}{{ $_ := set $variables "OPENAI_API_KEY_FILE" (printf "%s/provider/%s" $folder $key.key) }}{{ end -}}
env:
  {{- range $name, $value := $variables }}
  {{- if $value }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- end }}
  {{- with .cache.existingSecret }}
  - name: TRUSTGRAPH_PROMPT_CACHE
    valueFrom:
      secretKeyRef: {name: {{ . | quote }}, key: {{ $.cache.key | quote }}}
  {{- end }}
volumeMounts:
  {{- if $key.existingSecret }}
  - {name: provider, mountPath: {{ $folder }}/provider, readOnly: true}
  {{- end }}
  {{- if or $ca.configMap $ca.secret }}
  - {name: provider-ca, mountPath: {{ $folder }}/provider-ca, readOnly: true}
  {{- end }}
  {{- if $provider.recording.configMap }}
  - {name: recording, mountPath: {{ $folder }}/recording, readOnly: true}
  {{- end }}
volumes:
  {{- include "trustgraph-prompt.fileVolume" (dict "name" "provider" "secret" $key.existingSecret "key" $key.key) | nindent 2 }}
  {{- include "trustgraph-prompt.fileVolume" (dict "name" "provider-ca" "secret" $ca.secret "configMap" $ca.configMap "key" $ca.key) | nindent 2 }}
  {{- include "trustgraph-prompt.fileVolume" (dict "name" "recording" "configMap" $provider.recording.configMap "key" $provider.recording.key) | nindent 2 }}
{{- end -}}

{{/* A volume with one key of a secret or ConfigMap; nothing without either. Of: name, secret, configMap, key. */}}
{{- define "trustgraph-prompt.fileVolume" -}}
{{- if .secret -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret | quote }}
    items:
      - {key: {{ .key | quote }}, path: {{ .key | quote }}}
{{- else if .configMap -}}
- name: {{ .name }}
  configMap:
    name: {{ .configMap | quote }}
    items:
      - {key: {{ .key | quote }}, path: {{ .key | quote }}}
{{- end -}}
{{- end -}}
