export const GET = () => Response.json({ outcome: 'admitted' })
