/** Names of headers that products in front of an API set, which clients must not, and names that clients and SDKs send. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { COMMON, COMMON_CLAIMS, canPass, createPassedTest, isClaim } from '../../src/http/response/forwarded-headers.ts'

/** Who sets a header → its names, of which each is a claim if a client sends it. */
const CLAIMS: Readonly<Record<string, string>> = {
  'RFC 7239, 9440': 'Forwarded Client-Cert Client-Cert-Chain',
  'proxies in general':
    'X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Forwarded-Port X-Forwarded-Prefix X-Forwarded-Server ' +
    'X-Forwarded-Scheme X-Forwarded-Ssl X-Forwarded-By X-Forwarded-Path X-Originally-Forwarded-For Z-Forwarded-For ' +
    'X-Original-Forwarded-For X-Client-IP Client-IP X-Originating-IP X-Remote-IP X-Remote-Addr X-Cluster-Client-IP ' +
    'X-Host X-Host-Override X-HTTP-Host-Override X-ProxyUser-IP X-True-IP X-Base-Url Base-Url Request-Uri X-Proxy-Url',
  nginx: 'X-Real-IP X-Original-URI X-Original-Method X-Accel-Redirect X-Accel-Mapping X-Nginx-Proxy X-Real-Port',
  'ingress-nginx':
    'X-Original-URL X-Auth-Request-Redirect X-Scheme SSL-Client-Verify SSL-Client-Subject-DN SSL-Client-Issuer-DN',
  Traefik:
    'X-Forwarded-Tls-Client-Cert X-Forwarded-Tls-Client-Cert-Info X-Forwarded-Uri X-Forwarded-Method X-Replaced-Path',
  HAProxy: 'X-SSL X-SSL-Client-DN X-SSL-Client-CN X-SSL-Client-Cert X-Client-Verify X-Subject-DN X-Issuer-DN',
  Envoy:
    'X-Envoy-External-Address X-Envoy-Original-Path X-Envoy-Original-Host X-Envoy-Peer-Metadata X-Envoy-Internal ' +
    'X-Forwarded-Client-Cert',
  Linkerd: 'L5d-Client-Id L5d-Remote-Ip L5d-Dst-Override',
  Kubernetes: 'X-Remote-User X-Remote-Group X-Remote-Extra-Scopes',
  Kong:
    'X-Consumer-ID X-Consumer-Custom-ID X-Consumer-Username X-Consumer-Groups X-Credential-Identifier ' +
    'X-Credential-Username X-Anonymous-Consumer X-Authenticated-Userid X-Authenticated-Scope X-Userinfo',
  WSO2: 'X-JWT-Assertion',
  'mod_rewrite, IIS':
    'X-Rewrite-URL X-Original-Host X-ARR-SSL X-ARR-ClientCert X-ARR-Log-Id X-HTTP-DestinationURL Front-End-Https ' +
    'X-IISNode-Remote-Addr',
  'CGI and servlets':
    'Path-Info Path-Translated Script-Name Script-Filename X-Script-Name Query-String Document-Root Document-Uri ' +
    'Remote-Addr Remote-Host Remote-Port Server-Name Server-Port Auth-Type Gateway-Interface Orig-Path-Info ' +
    'X-Context-Path Proxy',
  'Home Assistant': 'X-Ingress-Path X-Remote-User-Id X-Remote-User-Name X-Remote-User-Display-Name',
  WebLogic: 'WL-Proxy-Client-IP Proxy-Client-IP WL-Proxy-SSL WL-Proxy-Client-Cert X-WebLogic-Original-URL',
  'Next.js':
    'X-Middleware-Subrequest X-Middleware-Rewrite X-Invoke-Path X-Invoke-Query X-Matched-Path X-Nextjs-Rewritten-Path',
  Vercel:
    'X-Vercel-Forwarded-For X-Vercel-Proxied-For X-Vercel-IP-Country X-Vercel-IP-City X-Vercel-OIDC-Token ' +
    'X-Now-Route-Matches',
  Netlify: 'X-NF-Client-Connection-IP',
  'Fly.io': 'Fly-Client-IP Fly-Forwarded-Proto Fly-Forwarded-Port Fly-Forwarded-SSL',
  DigitalOcean: 'DO-Connecting-IP',
  Cloudflare:
    'CF-Connecting-IPv6 CF-Pseudo-IPv4 True-Client-IP CF-Worker Cf-Access-Authenticated-User-Email Cf-Client-Cert-Sha256',
  Akamai: 'Akamai-Client-IP Akamai-Origin-Hop X-Akamai-Edgescape',
  Fastly: 'Fastly-Client-IP Fastly-FF Fastly-SSL Fastly-Client',
  'Imperva, Sucuri': 'Incap-Client-IP X-Sucuri-ClientIP',
  'Alibaba, Tencent': 'Ali-CDN-Real-IP X-CDN-Src-IP',
  'Google Cloud':
    'X-Goog-Authenticated-User-Email X-Goog-Authenticated-User-Id X-Goog-IAP-JWT-Assertion X-Endpoint-API-UserInfo ' +
    'X-Apigateway-Api-Userinfo X-AppEngine-User-IP X-AppEngine-User-Email X-AppEngine-Remote-Addr X-AppEngine-Country',
  Azure:
    'X-Azure-ClientIP X-Azure-SocketIP X-MS-Client-Principal X-MS-Client-Principal-Id X-MS-Client-Principal-Name ' +
    'X-MS-Token-AAD-Id-Token X-MS-Token-AAD-Access-Token X-WAWS-Unencoded-URL X-AppService-Proto Disguised-Host ' +
    'WAS-Default-Hostname X-Client-Port',
  AWS:
    'CloudFront-Viewer-Address CloudFront-Viewer-Country CloudFront-Forwarded-Proto CloudFront-Is-Mobile-Viewer ' +
    'X-Amzn-Oidc-Data X-Amzn-Oidc-Identity X-Amzn-Oidc-Accesstoken X-Amzn-Mtls-Clientcert ' +
    'X-Amzn-Mtls-Clientcert-Subject X-Amzn-Request-Context X-Amzn-Lambda-Context X-Apigateway-Event X-Apigateway-Context',
  'oauth2-proxy':
    'X-Auth-Request-User X-Auth-Request-Email X-Auth-Request-Groups X-Auth-Request-Preferred-Username ' +
    'X-Auth-Request-Access-Token X-Forwarded-User X-Forwarded-Email X-Forwarded-Groups X-Forwarded-Access-Token',
  Authelia: 'Remote-User Remote-Groups Remote-Name Remote-Email',
  authentik:
    'X-Authentik-Username X-Authentik-Groups X-Authentik-Email X-Authentik-Name X-Authentik-Uid X-Authentik-Jwt ' +
    'X-Authentik-Meta-Outpost',
  Vouch: 'X-Vouch-User X-Vouch-IdP-Claims-Email X-Vouch-Success',
  AuthCrunch: 'X-Token-User-Name X-Token-User-Email X-Token-User-Roles X-Token-Subject',
  Tailscale: 'Tailscale-User-Login Tailscale-User-Name Tailscale-User-Profile-Pic Tailscale-App-Capabilities',
  Pomerium: 'X-Pomerium-Claim-Email X-Pomerium-Claim-Groups',
  Gatekeeper: 'X-Auth-Username X-Auth-Userid X-Auth-Groups X-Auth-Roles X-Auth-Subject',
  Grafana: 'X-WEBAUTH-USER X-WEBAUTH-NAME X-WEBAUTH-EMAIL',
  mod_auth_openidc: 'OIDC-Claim-Sub OIDC-Claim-Email OIDC-Access-Token OIDC-Id-Token',
  'Shibboleth, Mellon, CAS': 'Shib-Session-Id Shib-Identity-Provider Eppn Mellon-Name-Id CAS-User',
  SiteMinder: 'SM-User SM-UserDN SM-AuthType SM-UniversalId',
  'WebSEAL, Oracle': 'IV-User IV-Groups IV-Creds IV-Remote-Address OAM-Remote-User OAM-Identity-Domain',
  'SSO products': 'X-SSO-User X-SAML-User X-Qlik-User X-Auth-CouchDB-Username',
}

/** Who sends a header → its names, which an API behind needs. */
const PASSED: Readonly<Record<string, string>> = {
  browsers:
    'User-Agent Accept Accept-Language Cookie Origin Referer If-None-Match Range Priority Sec-Fetch-Site Sec-CH-UA ' +
    'Sec-CH-UA-Platform Upgrade-Insecure-Requests X-Requested-With DNT Host',
  'clients in general':
    'Authorization X-API-Key X-User-Token X-User-Agent X-Client-Id ' +
    'X-Client-Version X-Account-Id X-Tenant-Id X-Session-Id X-Device-Id Idempotency-Key X-Request-Id X-Auth-Token ' +
    'X-Email-Token X-Login-Token X-Identity-Token X-Role-Arn X-Group-By X-Source Client-Id Subject-Token',
  'methods in headers': 'X-HTTP-Method X-HTTP-Method-Override X-Method-Override',
  tracing:
    'Traceparent Tracestate Baggage B3 X-B3-TraceId X-Datadog-Trace-Id Sentry-Trace X-Amzn-Trace-Id X-Request-Start CDN-Loop',
  'AWS SDKs':
    'X-Amz-User-Agent X-Amz-Date X-Amz-Security-Token X-Amz-Content-Sha256 X-Amz-Target Amz-Sdk-Invocation-Id ' +
    'X-Amz-Meta-User X-Amz-Meta-Original-Name X-Amz-Copy-Source',
  'Google SDKs':
    'X-Goog-Api-Client X-Goog-Api-Key X-Goog-User-Project X-Goog-FieldMask X-Firebase-AppCheck X-Serverless-Authorization',
  'Azure SDKs': 'X-MS-Client-Request-Id X-MS-UserAgent X-MS-Version X-MS-Date X-MS-Meta-Source-IP',
  Stripe: 'Stripe-Version Stripe-Account X-Stripe-Client-User-Agent',
  'OpenAI, Anthropic, Stainless': 'OpenAI-Organization Anthropic-Version X-Stainless-Lang X-Stainless-Retry-Count',
  Okta: 'X-Okta-User-Agent-Extended',
  'Box, Dropbox, Redmine, Discourse': 'As-User Dropbox-API-Select-User X-Redmine-Switch-User Api-Username Api-Key',
  'Trino, Presto, ClickHouse, Elasticsearch, Hasura':
    'X-Trino-User X-Trino-Source X-Presto-User X-ClickHouse-User X-ClickHouse-Key Es-Security-Runas-User ' +
    'X-Hasura-User-Id X-Hasura-Admin-Secret',
  Helicone: 'Helicone-User-Id',
  'Cloudflare and its API':
    'CF-Connecting-IP CF-Ray CF-IPCountry Cf-Access-Jwt-Assertion CF-Access-Client-Id X-Auth-Email X-Auth-Key',
  'GitHub, GitLab, Slack, Shopify':
    'X-GitHub-Api-Version X-GitHub-Event X-Hub-Signature-256 Private-Token X-Gitlab-Token X-Slack-Signature ' +
    'X-Shopify-Access-Token',
  'Next.js, Vercel': 'Next-Url Next-Action RSC X-Nextjs-Data X-Middleware-Prefetch X-Vercel-Protection-Bypass',
  'GraphQL, gRPC, tus, Supabase':
    'X-Apollo-Operation-Name X-Grpc-Web Grpc-Timeout Tus-Resumable Upload-Offset X-Client-Info',
  'Loki, Mimir, Jellyfin': 'X-Scope-OrgID X-Emby-Authorization',
}

const listRows = (table: Readonly<Record<string, string>>) =>
  Object.entries(table).flatMap(([who, names]) => names.split(' ').map((name) => [name, who] as const))

const isPassed = createPassedTest([])

test('the tables of names are long enough to mean something', () => {
  expect(new Set(listRows(CLAIMS).map(([name]) => name)).size).toBeGreaterThan(180)
  expect(new Set(listRows(PASSED).map(([name]) => name)).size).toBeGreaterThan(100)
})

test('createPassedTest() drops every header that a product in front of an API sets', () => {
  expect(listRows(CLAIMS).filter(([name]) => isPassed(name.toLowerCase()))).toEqual([])
})

test('createPassedTest() passes every header that clients and SDKs send', () => {
  expect(listRows(PASSED).filter(([name]) => !isPassed(name.toLowerCase()))).toEqual([])
})

test('the common fields, which no pattern looks at, are what the patterns say', () => {
  expect([...COMMON].filter((name) => !canPass(name) || (isClaim(name) && name !== 'cf-connecting-ip'))).toEqual([])
  expect([...COMMON_CLAIMS].filter((name) => !isClaim(name))).toEqual([])
  expect([...COMMON_CLAIMS].filter(createPassedTest(['x-real-ip']))).toEqual(['x-real-ip'])
})

test('createPassedTest() drops names of a user, by whatever words', () => {
  const subjects = (
    'user user-id userid user-name username user-email user-mail user-info user-role user-roles user-groups email mail ' +
    'email-address login login-name identity principal principal-id principal-name subject subject-id sub uid role roles ' +
    'group groups'
  ).split(' ')
  const before = [
    'x-',
    '',
    'x-sso-',
    'x-jwt-',
    'x-idp-',
    'x-ldap-',
    'x-oauth-',
    'x-current-',
    'x-verified-',
    'x-impersonate-',
  ]
  const names = [
    ...before.flatMap((prefix) => subjects.map((subject) => prefix + subject)),
    ...[
      'x-jwt-payload',
      'x-jwt-claims',
      'x-sso-token-subject',
      'impersonate-user',
      'impersonate-group',
      'x-logged-in-user',
    ],
  ]
  expect(names.length).toBeGreaterThan(275)
  expect(names.filter(isPassed)).toEqual([])
})

test('createPassedTest() drops names of the same words that a product may form tomorrow', () => {
  const vendor = fc.stringMatching(/^[a-z]{3,8}$/).map((word) => `x-q${word}`)
  const claim = fc.constantFrom(
    ...['forwarded-for', 'original-url', 'rewrite-url', 'client-ip', 'real-ip', 'remote-addr', 'claim-email', 'claims'],
    ...[
      'user',
      'username',
      'user-id',
      'user-email',
      'userinfo',
      'base-url',
      'request-uri',
      'client-cert',
      'viewer-address',
    ],
  )
  fc.assert(
    fc.property(vendor, claim, (vendor, claim) => {
      expect([`${vendor}-${claim}`, isPassed(`${vendor}-${claim}`)]).toEqual([`${vendor}-${claim}`, false])
      expect(createPassedTest([`${vendor}-${claim}`])(`${vendor}-${claim}`)).toBe(true)
    }),
  )
})
