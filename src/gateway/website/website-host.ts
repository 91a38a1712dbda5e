// Which hosts are websites: `BUCKET.s3-website.DOMAIN`, and with the region as AWS has it. To all
// else these are domains as the others are, so that the longest that fits says which bucket is
// meant.

/** What is before it names a bucket, as before the domains themselves. */
export function websiteDomains(domains: readonly string[], region: string): string[] {
  return domains.flatMap((domain) => [`s3-website.${domain}`, `s3-website-${region}.${domain}`]);
}

/** Is this value of `Host` below one of them, or one itself? */
export function isWebsiteHost(host: string, websites: readonly string[]): boolean {
  // Nearly all hosts are none.
  if (websites.length === 0 || !/s3-website/i.test(host)) return false;
  const name = host.replace(/:\d+$/, '').toLowerCase();
  return websites.some((base) => name === base || name.endsWith(`.${base}`));
}
