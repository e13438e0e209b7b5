/** How tokens are verified (RFC 7519). */
export interface JwtSettings {
  readonly keys: JwtKeys
  /** What `iss` must be; undefined: anything. */
  readonly issuer: string | undefined
  /** What `aud` must be or hold; undefined: anything. */
  readonly audience: string | undefined
}

export type JwtKeys =
  /** A key set (RFC 7517), published by who signs the tokens. */
  | { readonly kind: 'jwks'; readonly url: string }
  /** A secret shared with who signs them. */
  | { readonly kind: 'secret'; readonly secret: string }

/** As long as the output of SHA-256 (RFC 7518 §3.2). */
export const MIN_SECRET_CHARACTERS = 32
