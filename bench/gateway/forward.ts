/** What every compared gateway does with an admitted request: the least that a proxy must do. */
export function forward(request: Request, upstreamUrl: string): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  return fetch(new Request(upstreamUrl + pathname + search, request), { redirect: 'manual' })
}
