export const prerender = true
export const GET = () => new Response('prerendered')
